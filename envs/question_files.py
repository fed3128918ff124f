"""Question files: rows from JSON Lines, JSON or Parquet, checked, split by id and limited."""

import gzip
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from retrieval.errors import InputError
from retrieval.rows import read_rows

from .question_formats import COLUMNS, Format, recognise
from .rules import checked_rules
from .types import Question

SPLITS = ("all", "train", "test")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of a file's questions to take.

    Attributes:
        split: "all", "train" or "test".
        test_share: Share of the questions that is "test", 0 to 1. The id's hash decides, so a
            question stays on its side when rows are added, dropped or reordered.
        limit: At most so many, from the start of the file; None for all.
    """

    split: str = "all"
    test_share: float = 0.2
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise InputError(f"split {self.split!r} is none of {', '.join(SPLITS)}; choose one")
        if not 0 <= self.test_share <= 1:
            raise InputError(f"test_share {self.test_share} must lie between 0 and 1")
        if self.limit is not None and self.limit < 1:
            raise InputError(f"limit {self.limit} must be at least 1, or null for all questions")

    def has(self, identifier: str) -> bool:
        """Whether the question of that id is in the split."""
        if self.split == "all":
            return True
        digest = hashlib.sha256(identifier.encode()).digest()
        is_test = int.from_bytes(digest[:8], "big") < self.test_share * 2**64
        return is_test == (self.split == "test")


def read_questions(
    path: str | Path,
    name: str,
    formats: tuple[Format, ...],
    selection: Selection,
    subset: str | None = None,
) -> tuple[Question, ...]:
    """The questions of a file.

    Args:
        path: A `.jsonl`, `.json` (either may end in `.gz`) or `.parquet` file.
        name: `Question.dataset` where a row names none.
        formats: The row formats that may occur.
        selection: Which questions to take.
        subset: Which part of a JSON file that holds several.

    Raises:
        InputError: The file cannot be read, a row is wrong, or nothing is left of it; the message
            names file and line.
    """
    rows = file_rows(path, subset)
    return select(path, questions_of(path, rows, name, formats), selection)


def file_rows(path: str | Path, subset: str | None = None) -> Iterator[tuple[str, object]]:
    """The rows of a file, each with its place ("line 7") for messages."""
    path = Path(path)
    if path.name.lower().endswith((".json", ".json.gz")):
        return _json_rows(path, subset)
    return read_rows(path, COLUMNS)


def questions_of(
    path: str | Path, rows: Iterable[tuple[str, object]], name: str, formats: tuple[Format, ...]
) -> Iterator[tuple[str, Question]]:
    """The questions of rows, each with the key that decides its split.

    A row without an id gets one from its question and answers; a repeat of such a row gets a number
    on top but keeps the key, so that train and test never share it.
    """
    counts: Counter[str] = Counter()
    for place, row in rows:
        try:
            question = recognise(row, formats)
        except InputError as error:
            raise InputError(f"{path}: {place}: {error}") from None
        key = question.id or f"{name}-{_digest(question)}"
        counts[key] += 1
        identifier = key
        if counts[key] > 1:
            if question.id:
                raise InputError(f"{path}: {place}: id {key!r} occurs twice; ids must be unique")
            identifier = f"{key}-{counts[key]}"
        yield key, replace(question, id=identifier, dataset=question.dataset or name)


def select(
    path: str | Path, keyed: Iterable[tuple[str, Question]], selection: Selection
) -> tuple[Question, ...]:
    """The selected questions; at least one."""
    rows = iter(keyed)
    first = list(islice(rows, 1))
    if not first:
        raise InputError(f"{path}: no questions; the file is empty")
    kept = (question for key, question in chain(first, rows) if selection.has(key))
    questions = tuple(islice(kept, selection.limit))
    if not questions:
        raise InputError(
            f"{path}: no questions in split {selection.split!r} at test_share "
            f"{selection.test_share}; change either"
        )
    return questions


def ruled(questions: Sequence[Question], rules: tuple[str, ...]) -> tuple[Question, ...]:
    """The questions, played by these rules of `envs.rules.RULES`.

    Raises:
        InputError: An unknown rule.
    """
    names = checked_rules(rules)
    return tuple(replace(question, rules=names) for question in questions)


def _digest(question: Question) -> str:
    content = json.dumps([question.text, question.answers, dict(question.options or {})])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _json_rows(path: Path, subset: str | None) -> Iterator[tuple[str, object]]:
    """A JSON list, or {subset: {id: row}}."""
    value = _json(path)
    if isinstance(value, dict):
        rows = _subset(path, value, subset)
        for key, row in rows.items():
            yield f"{subset}/{key}", {"id": key, **row} if isinstance(row, dict) else row
    elif isinstance(value, list):
        for number, row in enumerate(value, 1):
            yield f"item {number}", row
    else:
        raise InputError(f"{path}: holds a JSON {type(value).__name__}; want a list of questions")


def _subset(path: Path, value: dict[str, object], subset: str | None) -> dict[str, object]:
    rows = value.get(subset or "")
    if not isinstance(rows, dict):
        found = ", ".join(list(value)[:12])
        raise InputError(f"{path}: no subset {subset!r} of questions by id; it has {found}")
    return rows


def _json(path: Path) -> object:
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        data = path.read_bytes()
        if path.suffix.lower() == ".gz":
            data = gzip.decompress(data)
        return json.loads(data.decode("utf-8-sig"))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: truncated or corrupt gzip ({error}); fetch it again") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except json.JSONDecodeError as error:
        hint = (
            "name it .jsonl if it has one object a line" if error.msg == "Extra data" else "mend it"
        )
        raise InputError(f"{path}: line {error.lineno}: not JSON ({error.msg}); {hint}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON in UTF-8 ({error}); mend it") from error
