"""MuSiQue: two- to four-hop questions composed of single hops.

Trivedi et al., TACL 2022 (arXiv:2108.00573). Reads the official JSON Lines `{id, question, answer,
answer_aliases, answerable, paragraphs}`, the copy on the hub, FlashRAG's and Search-R1's files, and
this project's format. The unanswerable questions of MuSiQue-Full are left out and counted.
"""

from dataclasses import dataclass

from ..question_contexts import context_corpus
from ..question_formats import FLASHRAG, PLAIN, SEARCH_R1
from ..question_hub import HubAddress
from ..question_sets import QuestionSet, SetConfig
from ..types import Dataset
from ..wikipedia_formats import MUSIQUE

SET = QuestionSet(
    "musique",
    (PLAIN, FLASHRAG, SEARCH_R1, MUSIQUE),
    hub=(HubAddress("dgslibisey/MuSiQue"),),
)


@dataclass(frozen=True, slots=True)
class Config(SetConfig):
    """The settings that every named set has, and what to search.

    Attributes:
        context_corpus: Make the questions' context paragraphs the corpus: those of the whole file,
            whatever the split and the limit, so that one index serves all.
    """

    context_corpus: bool = False


def build(config: Config) -> Dataset:
    """Read the questions.

    Raises:
        InputError: A setting, the source or a row is wrong, or there is no context to make a
            corpus.
    """
    if not config.context_corpus:
        return Dataset(SET.questions(config))
    rows = list(SET.rows(config))
    passages = context_corpus(SET.source(config), rows, SET.name)
    return Dataset(SET.questions(config, rows), passages)
