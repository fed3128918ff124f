"""PopQA: questions on entities of the long tail, made from Wikidata triples.

Mallen et al., ACL 2023 (arXiv:2212.10511). Reads the publisher's table, whose `possible_answers` is
a JSON list in a cell, the same in JSON Lines or from the hub, FlashRAG's and Search-R1's files, and
this project's format. The evidence is the page of the question's subject.
"""

from dataclasses import dataclass

from ..question_formats import FLASHRAG, PLAIN, SEARCH_R1
from ..question_hub import HubAddress
from ..question_sets import QuestionSet, SetConfig
from ..types import Dataset
from ..wikipedia_formats import POPQA

SET = QuestionSet(
    "popqa",
    (PLAIN, FLASHRAG, SEARCH_R1, POPQA),
    hub=(HubAddress("akariasai/PopQA", split="test"),),
)


@dataclass(frozen=True, slots=True)
class Config(SetConfig):
    """The settings that every named set has."""


def build(config: Config) -> Dataset:
    """Read the questions.

    Raises:
        InputError: A setting, the source or a row is wrong.
    """
    return Dataset(SET.questions(config))
