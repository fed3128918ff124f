"""AlphaMed: the 19,000 multiple-choice questions that SORL trains on.

Liu et al., 2025 (arXiv:2505.17952), a selection of other sets' training questions. Reads the hub's
Parquet `{question, answer}`, where the options stand behind the question in its text and the answer
is a letter, MedQA's format and this project's.
"""

from dataclasses import dataclass

from ..medical_formats import ALPHAMED, MEDQA
from ..question_formats import MIRAGE, PLAIN
from ..question_hub import HubAddress
from ..question_sets import QuestionSet, SetConfig
from ..types import Dataset

SET = QuestionSet(
    "alphamed",
    (PLAIN, MEDQA, MIRAGE, ALPHAMED),
    hub=(HubAddress("che111/AlphaMed19K"),),
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
