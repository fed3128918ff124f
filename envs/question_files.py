"""Questions of files: rows checked, split by id, limited, and a seeded subset of them."""

import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from retrieval.errors import InputError

from .question_formats import Format, Skipped, recognise
from .rules import checked_rules
from .types import Question

SPLITS = ("all", "train", "test")

# A reason to leave a question out, or None to keep it.
Skip = Callable[[Question], str | None]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of a file's questions to take.

    Attributes:
        split: "all", "train" or "test".
        test_share: Share of the questions that is "test", 0 to 1. The id's hash decides, so a
            question stays on its side when rows are added, dropped or reordered.
        limit: At most so many, from the start of the file; None for all.
        subset_seed: With a limit, take the questions whose ids have the lowest SHA-256 under this
            seed instead of the first ones, in the order of the file: a random subset that changes
            little when rows are added, and not at all when they are reordered.
        test_ids: The ids that are "test", instead of a share; None where none are published.
    """

    split: str = "all"
    test_share: float = 0.2
    limit: int | None = None
    subset_seed: int | None = None
    test_ids: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise InputError(f"split {self.split!r} is none of {', '.join(SPLITS)}; choose one")
        if not 0 <= self.test_share <= 1:
            raise InputError(f"test_share {self.test_share} must lie between 0 and 1")
        if self.limit is not None and self.limit < 1:
            raise InputError(f"limit {self.limit} must be at least 1, or null for all questions")
        if self.subset_seed is not None and self.limit is None:
            raise InputError(
                f"subset_seed {self.subset_seed} chooses which questions a limit leaves; set limit"
            )

    def has(self, identifier: str) -> bool:
        """Whether the question of that id is in the split."""
        if self.split == "all":
            return True
        if self.test_ids is not None:
            is_test = identifier in self.test_ids
        else:
            digest = hashlib.sha256(identifier.encode()).digest()
            is_test = int.from_bytes(digest[:8], "big") < self.test_share * 2**64
        return is_test == (self.split == "test")

    def rank(self, question: Question) -> bytes:
        """The place of a question in the order that a seeded subset is taken by."""
        return hashlib.sha256(f"{self.subset_seed}:{question.id}".encode()).digest()

    def limited(self, questions: Iterable[Question]) -> tuple[Question, ...]:
        """The first `limit` of them, or with a seed its subset, in the order given."""
        if self.subset_seed is None:
            return tuple(islice(questions, self.limit))
        listed = list(questions)
        chosen = {question.id for question in sorted(listed, key=self.rank)[: self.limit]}
        return tuple(question for question in listed if question.id in chosen)


def questions_of(
    path: str,
    rows: Iterable[tuple[str, object]],
    name: str,
    formats: tuple[Format, ...],
    skip: Skip | None = None,
) -> Iterator[tuple[str, Question]]:
    """The questions of rows, each with the key that decides its split.

    A row without an id gets one from its question and answers; a repeat of such a row gets a number
    on top but keeps the key, so that train and test never share it. Rows that are left out on
    purpose are counted, and a warning gives the numbers once all rows are read.

    Args:
        path: Where the rows are from, for messages.
        rows: (place, row).
        name: `Question.dataset` where a row names none.
        formats: The row formats that may occur.
        skip: Which questions to leave out, and why.

    Raises:
        InputError: A row is wrong, or all rows are left out; the message names file and line.
    """
    counts: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for place, row in rows:
        try:
            found = _found(row, formats, skip)
        except InputError as error:
            raise InputError(f"{path}: {place}: {error}") from None
        if isinstance(found, Skipped):
            skipped[found.reason] += 1
            continue
        key = found.id or f"{name}-{_digest(found)}"
        counts[key] += 1
        identifier = key
        if counts[key] > 1:
            if found.id:
                raise InputError(f"{path}: {place}: id {key!r} occurs twice; ids must be unique")
            identifier = f"{key}-{counts[key]}"
        yield key, replace(found, id=identifier, dataset=found.dataset or name)
    _report(path, skipped, bool(counts))


def _found(row: object, formats: tuple[Format, ...], skip: Skip | None) -> Question | Skipped:
    found = recognise(row, formats)
    reason = skip(found) if skip and isinstance(found, Question) else None
    return Skipped(reason) if reason else found


def _report(path: str, skipped: Counter[str], some_left: bool) -> None:
    numbers = ", ".join(f"{count} {reason}" for reason, count in sorted(skipped.items()))
    if skipped and not some_left:
        raise InputError(f"{path}: no questions; every row was left out: {numbers}")
    if skipped:
        warnings.warn(f"{path}: rows left out: {numbers}", stacklevel=2)


def select(
    path: str, keyed: Iterable[tuple[str, Question]], selection: Selection
) -> tuple[Question, ...]:
    """The selected questions; at least one."""
    rows = iter(keyed)
    first = list(islice(rows, 1))
    if not first:
        raise InputError(f"{path}: no questions; the file is empty")
    questions = selection.limited(
        question for key, question in chain(first, rows) if selection.has(key)
    )
    if not questions:
        by = (
            f"at test_share {selection.test_share}"
            if selection.test_ids is None
            else f"by the {len(selection.test_ids)} ids that are test"
        )
        raise InputError(f"{path}: no questions in split {selection.split!r} {by}; change either")
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
