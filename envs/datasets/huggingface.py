"""Any question set of the Hugging Face hub, or a local folder of its Parquet or JSON files.

Read by the `datasets` library; code that a data set carries is never run. Columns are named in the
config. Answers may be a text, a list of texts, or a mapping with "text" (SQuAD) or "aliases"
(TriviaQA). With an options column the answer may be the letter, the text, or a number from 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from retrieval.errors import InputError

from ..question_files import Selection, questions_of, ruled, select
from ..question_formats import Format, Row
from ..question_hub import HubAddress, load
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
        subset_seed: With a limit, a random subset by the hash of seed and id instead of the first
            questions; null for the first ones.
        rules: Rules of the searches for these questions: "novel_only" (no passage twice in an
            episode), "strict_queries" (no query with the text of an option), "exclude_sources"
            (without the passages that the question was made from).
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
    subset_seed: int | None = None
    rules: tuple[str, ...] = ()
    cache_dir: str | None = None


def build(config: Config) -> Dataset:
    """Fetch or open the data set.

    Raises:
        InputError: A setting or a row is wrong, or the data set cannot be had.
    """
    selection = Selection(config.split, config.test_share, config.limit, config.subset_seed)
    rows = load(HubAddress(config.repo, config.config_name, config.hf_split), config.cache_dir)
    wanted = (config.question_column, config.answers_column, config.options_column)
    missing = [column for column in wanted if column and column not in rows.column_names]
    if missing:
        raise InputError(
            f"{config.repo}: no column {missing[0]!r}; it has {', '.join(rows.column_names)}"
        )
    numbered = ((f"row {number}", row) for number, row in enumerate(rows, 1))
    named = Format("the columns named in the config", lambda row: _question(row, config), ())
    keyed = questions_of(config.repo, numbered, Path(config.repo).name, (named,))
    return Dataset(ruled(select(config.repo, keyed, selection), config.rules))


def _question(row: Row, config: Config) -> Question:
    options = options_of(row[config.options_column]) if config.options_column else {}
    answers = row[config.answers_column]
    if isinstance(answers, Mapping):
        answers = answers.get("text") or answers.get("aliases")
    if options and isinstance(answers, int) and 0 <= answers < len(options):
        answers = list(options)[answers]
    identifier = row.get(config.id_column)
    return build_question(identifier, row[config.question_column], answers, options=options)
