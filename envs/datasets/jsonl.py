"""Questions in this project's own format: one JSON object a line, plain or gzipped.

`{"id", "question", "answers": [...], "options": {letter: text} or null, "supporting_titles": [...]
or null, "source_ids": [...] or null, "dataset"}`. Without `source_ids` those are `meta.gold_ids`.
Other keys are ignored, "split" too: a file is what it is, and `split` here divides it by the hash
of the ids. With options, `answers[0]` is the right letter.
"""

from dataclasses import dataclass

from ..question_files import Selection, read_questions, ruled
from ..question_formats import PLAIN
from ..types import Dataset


@dataclass(frozen=True, slots=True)
class Config:
    """Settings.

    Attributes:
        path: The file.
        split: "all", "train" or "test".
        test_share: Share of the questions that is "test", 0 to 1, by the hash of the id.
        limit: At most so many questions, from the start; null for all.
        rules: Rules of the searches for these questions: "novel_only" (no passage twice in an
            episode), "strict_queries" (no query with the text of an option), "exclude_sources"
            (without the passages that the question was made from).
    """

    path: str
    split: str = "all"
    test_share: float = 0.2
    limit: int | None = None
    rules: tuple[str, ...] = ()


def build(config: Config) -> Dataset:
    """Read the file.

    Raises:
        InputError: A setting, the file or a row is wrong.
    """
    selection = Selection(config.split, config.test_share, config.limit)
    questions = read_questions(config.path, "jsonl", (PLAIN,), selection)
    return Dataset(ruled(questions, config.rules))
