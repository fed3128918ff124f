"""Bamboogle: 125 two-hop questions that a search engine does not answer at once.

Press et al., 2022 (arXiv:2210.03350). Reads the publisher's table with the columns Question and
Answer, the same in JSON or from the hub, FlashRAG's and Search-R1's files, and this project's
format.
"""

from dataclasses import dataclass

from ..question_formats import FLASHRAG, PLAIN, SEARCH_R1
from ..question_hub import HubAddress
from ..question_sets import QuestionSet, SetConfig
from ..types import Dataset
from ..wikipedia_formats import BAMBOOGLE

SET = QuestionSet(
    "bamboogle",
    (PLAIN, FLASHRAG, SEARCH_R1, BAMBOOGLE),
    hub=(HubAddress("chiayewken/bamboogle", split="test"),),
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
