"""MuSiQue: two- to four-hop questions composed of single hops.

Trivedi et al., TACL 2022 (arXiv:2108.00573). Reads the official JSON Lines `{id, question, answer,
answer_aliases, answerable, paragraphs}`, the copy on the hub, FlashRAG's and Search-R1's files, and
this project's format. The unanswerable questions of MuSiQue-Full are left out and counted.
"""

from dataclasses import dataclass

from ..question_contexts import ContextConfig, read_set
from ..question_formats import FLASHRAG, PLAIN, SEARCH_R1
from ..question_hub import HubAddress
from ..question_sets import QuestionSet
from ..types import Dataset
from ..wikipedia_formats import MUSIQUE

SET = QuestionSet(
    "musique",
    (PLAIN, FLASHRAG, SEARCH_R1, MUSIQUE),
    hub=(HubAddress("dgslibisey/MuSiQue"),),
)


@dataclass(frozen=True, slots=True)
class Config(ContextConfig):
    """The settings that every named set has, and `context_corpus`."""


def build(config: Config) -> Dataset:
    """Read the questions.

    Raises:
        InputError: A setting, the source or a row is wrong, or there is no context to make a
            corpus.
    """
    return read_set(SET, config)
