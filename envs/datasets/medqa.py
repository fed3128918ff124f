"""MedQA: multiple-choice questions of the US medical licensing exam.

Jin et al., 2021 (arXiv:2009.13081). Reads the official JSON Lines `{question, options, answer,
answer_idx}`, the MIRAGE benchmark's `benchmark.json` (Xiong et al., arXiv:2402.13178), which holds
MedQA, MMLU, PubMedQA, BioASQ and MedMCQA as subsets, and this project's format.
"""

from dataclasses import dataclass

from ..question_files import Selection, read_questions, ruled
from ..question_formats import MEDQA, MIRAGE, PLAIN
from ..types import Dataset

FORMATS = (PLAIN, MEDQA, MIRAGE)


@dataclass(frozen=True, slots=True)
class Config:
    """Settings.

    Attributes:
        path: The file.
        split: "all", "train" or "test".
        test_share: Share of the questions that is "test", 0 to 1, by the hash of the id.
        limit: At most so many questions, from the start; null for all.
        subset: Of MIRAGE's file: medqa, medmcqa, pubmedqa, bioasq or mmlu. Other files have none.
        rules: Rules of the searches for these questions: "novel_only" (no passage twice in an
            episode), "strict_queries" (no query with the text of an option), "exclude_sources"
            (without the passages that the question was made from).
    """

    path: str
    split: str = "all"
    test_share: float = 0.2
    limit: int | None = None
    subset: str = "medqa"
    rules: tuple[str, ...] = ()


def build(config: Config) -> Dataset:
    """Read the file.

    Raises:
        InputError: A setting, the file or a row is wrong.
    """
    selection = Selection(config.split, config.test_share, config.limit)
    questions = read_questions(config.path, config.subset, FORMATS, selection, config.subset)
    return Dataset(ruled(questions, config.rules))
