"""Natural Questions, open: factoid questions over Wikipedia.

Kwiatkowski et al., TACL 2019; the open subset of Lee et al., ACL 2019. Reads NQ-open JSON Lines
`{question, answer: [...]}`, FlashRAG's and Search-R1's JSON Lines and Parquet, and this project's
format. A row without an id gets one from the hash of its content.
"""

from dataclasses import dataclass

from ..question_files import Selection, read_questions
from ..question_formats import FLASHRAG, NQ_OPEN, PLAIN, SEARCH_R1
from ..types import Dataset

FORMATS = (PLAIN, FLASHRAG, SEARCH_R1, NQ_OPEN)


@dataclass(frozen=True, slots=True)
class Config:
    """Settings.

    Attributes:
        path: The file.
        split: "all", "train" or "test".
        test_share: Share of the questions that is "test", 0 to 1, by the hash of the id.
        limit: At most so many questions, from the start; null for all.
    """

    path: str
    split: str = "all"
    test_share: float = 0.2
    limit: int | None = None


def build(config: Config) -> Dataset:
    """Read the file.

    Raises:
        InputError: A setting, the file or a row is wrong.
    """
    selection = Selection(config.split, config.test_share, config.limit)
    return Dataset(read_questions(config.path, "nq", FORMATS, selection))
