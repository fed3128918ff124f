"""Any question set of the Hugging Face hub, or a local folder of its Parquet or JSON files.

Read by the `datasets` library; code that a data set carries is never run. Columns are named in the
config. Answers may be a text, a list of texts, or a mapping with "text" (SQuAD) or "aliases"
(TriviaQA). With an options column the answer may be the letter, the text, or a number from 0.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrieval.errors import InputError

from ..question_files import Selection, questions_of, select
from ..question_formats import Format, Row
from ..question_values import build_question, options_of
from ..types import Dataset, Question


@dataclass(frozen=True, slots=True)
class Config:
    """Settings.

    Attributes:
        repo: The data set on the hub ("owner/name"), or a local folder.
        config_name: The data set's own configuration; null for its default.
        hf_split: The data set's own split.
        id_column: Rows without it get an id from their content.
        question_column: The question.
        answers_column: The answers.
        options_column: The options of multiple choice; null for none.
        split: "all", "train" or "test" of what `hf_split` holds.
        test_share: Share of the questions that is "test", 0 to 1, by the hash of the id.
        limit: At most so many questions, from the start; null for all.
        cache_dir: Where downloads go; null for the library's default.
    """

    repo: str
    config_name: str | None = None
    hf_split: str = "train"
    id_column: str = "id"
    question_column: str = "question"
    answers_column: str = "answers"
    options_column: str | None = None
    split: str = "all"
    test_share: float = 0.2
    limit: int | None = None
    cache_dir: str | None = None


def build(config: Config) -> Dataset:
    """Fetch or open the data set.

    Raises:
        InputError: A setting or a row is wrong, or the data set cannot be had.
    """
    selection = Selection(config.split, config.test_share, config.limit)
    rows = _load(config)
    wanted = (config.question_column, config.answers_column, config.options_column)
    missing = [column for column in wanted if column and column not in rows.column_names]
    if missing:
        raise InputError(
            f"{config.repo}: no column {missing[0]!r}; it has {', '.join(rows.column_names)}"
        )
    columns = Format("the columns named in the config", lambda row: _question(row, config))
    name = Path(config.repo).name
    keyed = questions_of(config.repo, _numbered(rows), name, (columns,))
    return Dataset(select(config.repo, keyed, selection))


def _load(config: Config) -> Any:
    # Imported here: the library takes seconds to load, and every command lists this folder.
    import datasets

    try:
        return datasets.load_dataset(
            config.repo, config.config_name, split=config.hf_split, cache_dir=config.cache_dir
        )
    except Exception as error:  # the hub's client raises some twenty kinds, from five libraries
        cause = str(error).strip().partition("\n")[0] or type(error).__name__
        raise InputError(
            f"{config.repo}: cannot be loaded ({cause}); check repo, config_name and hf_split, "
            "and that the hub can be reached, or give a local folder of Parquet files"
        ) from error


def _numbered(rows: Any) -> Iterator[tuple[str, object]]:
    for number, row in enumerate(rows, 1):
        yield f"row {number}", row


def _question(row: Row, config: Config) -> Question:
    options = options_of(row[config.options_column]) if config.options_column else {}
    answers = row[config.answers_column]
    if isinstance(answers, Mapping):
        answers = answers.get("text") or answers.get("aliases")
    if options and isinstance(answers, int) and 0 <= answers < len(options):
        answers = list(options)[answers]
    identifier = row.get(config.id_column)
    return build_question(identifier, row[config.question_column], answers, options=options)
