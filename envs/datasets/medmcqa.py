"""MedMCQA: multiple-choice questions of Indian medical entrance exams.

Pal et al., CHIL 2022 (arXiv:2203.14371). Reads the publisher's JSON Lines `{id, question, opa, opb,
opc, opd, cop}`, whose file names end in .json, the copy on the hub, MIRAGE's `benchmark.json`, and
this project's format. `cop`, the right option, counts from 1 in the publisher's files and from 0 on
the hub, so the numbers of the whole file decide: a 0 or a 4 says which it is. A file with neither,
which only a short excerpt is, counts from 0 where it is Parquet or from the hub. The test split has
no answers.
"""

from dataclasses import dataclass, replace

from retrieval.errors import InputError

from ..medical_formats import medmcqa
from ..question_formats import MIRAGE, PLAIN
from ..question_hub import PREFIX, HubAddress
from ..question_rows import Layout
from ..question_sets import QuestionSet, Rows, SetConfig
from ..types import Dataset

SET = QuestionSet(
    "medmcqa",
    (PLAIN, MIRAGE, medmcqa(1)),
    Layout(parts=("medmcqa",)),
    (HubAddress("openlifescienceai/medmcqa"),),
)


@dataclass(frozen=True, slots=True)
class Config(SetConfig):
    """The settings that every named set has."""


def build(config: Config) -> Dataset:
    """Read the questions.

    Raises:
        InputError: A setting, the source or a row is wrong.
    """
    rows = list(SET.rows(config))
    chosen = replace(SET, formats=(PLAIN, MIRAGE, medmcqa(_first(config, rows))))
    return Dataset(chosen.questions(config, rows))


def _first(config: Config, rows: Rows) -> int:
    """The number of option A in these rows: 0 or 1."""
    numbers = {row.get("cop") for _, row in rows if isinstance(row, dict)}
    if {0, 4} <= numbers:
        raise InputError(
            f"{SET.source(config)}: cop is 0 in some rows and 4 in others; files that count from 0 "
            "and from 1 are mixed, so split them"
        )
    if numbers & {0, 4}:
        return 0 if 0 in numbers else 1
    path = config.path or PREFIX
    return 0 if path.startswith(PREFIX) or path.lower().endswith(".parquet") else 1
