"""Natural Questions, open: factoid questions over Wikipedia.

Kwiatkowski et al., TACL 2019; the open subset of Lee et al., ACL 2019. Reads NQ-open JSON Lines
`{question, answer: [...]}`, FlashRAG's and Search-R1's JSON Lines and Parquet, and this project's
format. A row without an id gets one from the hash of its content.
"""

from dataclasses import dataclass

from ..question_formats import FLASHRAG, PLAIN, SEARCH_R1
from ..question_hub import HubAddress
from ..question_sets import QuestionSet, SetConfig
from ..types import Dataset
from ..wikipedia_formats import NQ_OPEN

SET = QuestionSet(
    "nq",
    (PLAIN, FLASHRAG, SEARCH_R1, NQ_OPEN),
    hub=(HubAddress("google-research-datasets/nq_open"),),
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
