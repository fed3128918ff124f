"""MMLU's six medical subjects: multiple-choice questions of exams, 1,089 in the test split.

Hendrycks et al., ICLR 2021 (arXiv:2009.03300); the six subjects are those of MIRAGE (Xiong et al.,
arXiv:2402.13178). Reads one of the publisher's tables `<subject>_test.csv`, or the folder that
holds them; the copy on the hub; MIRAGE's `benchmark.json`; and this project's format. Ids of tables
are `<subject>-<row from 0>`, as in MIRAGE. 78 questions are there twice, under two subjects.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from retrieval.errors import InputError

from ..medical_formats import MMLU, MMLU_HUB
from ..question_formats import MIRAGE, PLAIN
from ..question_hub import PREFIX, HubAddress
from ..question_rows import Layout, file_rows
from ..question_sets import QuestionSet, SetConfig
from ..types import Dataset

SUBJECTS = (
    "anatomy",
    "clinical_knowledge",
    "college_biology",
    "college_medicine",
    "medical_genetics",
    "professional_medicine",
)
_HEADER = ("question", "A", "B", "C", "D", "answer")

SET = QuestionSet(
    "mmlu_med",
    (PLAIN, MIRAGE, MMLU, MMLU_HUB),
    Layout(parts=("mmlu",)),
    tuple(HubAddress("cais/mmlu", subject, "test") for subject in SUBJECTS),
)


@dataclass(frozen=True, slots=True)
class Config(SetConfig):
    """The settings that every named set has; the path may be a folder of tables."""


def build(config: Config) -> Dataset:
    """Read the questions.

    Raises:
        InputError: A setting, the source or a row is wrong, or the folder lacks a subject.
    """
    tables = _tables(config.path)
    return Dataset(SET.questions(config, _table_rows(tables) if tables else None))


def _tables(path: str | None) -> list[Path]:
    """The publisher's tables that a path means; none where it means something else."""
    if path is None or path.startswith(PREFIX):
        return []
    place = Path(path)
    if not place.is_dir():
        return [place] if place.suffix.lower() == ".csv" else []
    tables = [place / f"{subject}_test.csv" for subject in SUBJECTS]
    if missing := [table.name for table in tables if not table.is_file()]:
        raise InputError(f"{path}: lacks {', '.join(missing)}; give the folder of all six subjects")
    return tables


def _table_rows(tables: list[Path]) -> Iterator[tuple[str, object]]:
    """The rows with their ids; a place begins with the table's name."""
    for table in tables:
        subject = table.stem.rpartition("_")[0] or table.stem
        rows = file_rows(table, (), Layout(header=_HEADER))
        for number, (place, row) in enumerate(rows):
            assert isinstance(row, dict)  # as of every table
            yield f"{table.name} {place}", {"id": f"{subject}-{number:03d}", **row}
