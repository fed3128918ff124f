"""Questions in this project's own format: one JSON object a line, plain or gzipped.

`{"id", "question", "answers": [...], "options": {letter: text} or null, "supporting_titles": [...]
or null, "source_ids": [...] or null, "dataset"}`. Without `source_ids` those are `meta.gold_ids`.
Other keys are ignored, "split" too: a file is what it is, and `split` here divides it by the hash
of the ids. With options, `answers[0]` is the right letter.
"""

from dataclasses import dataclass

from ..question_formats import PLAIN
from ..question_sets import QuestionSet, SetConfig
from ..types import Dataset

SET = QuestionSet("jsonl", (PLAIN,))


@dataclass(frozen=True, slots=True)
class Config(SetConfig):
    """The settings that every named set has, with a path of its own.

    Attributes:
        path: The file; this format has no place on the hub.
    """

    path: str


def build(config: Config) -> Dataset:
    """Read the questions.

    Raises:
        InputError: A setting, the source or a row is wrong.
    """
    return Dataset(SET.questions(config))
