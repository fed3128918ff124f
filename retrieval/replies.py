"""What a search server answers, read as if it could be anything: every type, number and order."""

import hashlib
import json
import math
from typing import Any

from .corpus import title_and_text
from .replicas import ReplicaError
from .types import Hit, Passage


def read_json(body: bytes) -> dict[str, Any]:
    """The JSON object of an answer.

    Raises:
        ReplicaError: Anything else.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ReplicaError(f"the answer is not JSON ({error})") from None
    return _dict(value, "the answer")


def read_native(body: bytes, queries: int, k: int) -> list[list[Hit]]:
    """Our own dialect, exactly as an engine must answer.

    Args:
        body: `{answers: [[{id, title, text, score, rank}]]}`.
        queries: How many were sent.
        k: The most hits of one.

    Raises:
        ReplicaError: Not that, not so many, or not in order.
    """
    answers = _answers(read_json(body), "answers", queries)
    found = [[_native_hit(item) for item in hits] for hits in answers]
    for hits in found:
        if hits != _in_order(hits, k):
            raise ReplicaError("an answer has too many hits, repeats one, or is out of order")
    return found


def read_search_r1(body: bytes, queries: int, k: int) -> list[list[Hit]]:
    """Search-R1's dialect, with scores; put in our order, repeats dropped.

    Args:
        body: `{result: [[{document: {id, contents}, score}]]}`.
        queries: How many were sent.
        k: The most hits of one.

    Raises:
        ReplicaError: Not that, or not so many.
    """
    answers = _answers(read_json(body), "result", queries)
    return [_in_order([_search_r1_hit(item) for item in hits], k) for hits in answers]


def _answers(answer: dict[str, Any], name: str, queries: int) -> list[list[Any]]:
    lists = answer.get(name)
    if not isinstance(lists, list) or not all(isinstance(one, list) for one in lists):
        raise ReplicaError(f"{name} is no list of lists")
    if len(lists) != queries:
        raise ReplicaError(f"{len(lists)} answers to {queries} queries")
    return lists


def _in_order(hits: list[Hit], k: int) -> list[Hit]:
    """The k best, ranked; equal scores by id, each id once."""
    best: dict[str, Hit] = {}
    for hit in sorted(hits, key=lambda hit: (-hit.score, hit.passage.id)):
        best.setdefault(hit.passage.id, hit)
    return [
        Hit(hit.passage, hit.score, rank) for rank, hit in enumerate(list(best.values())[:k], 1)
    ]


def _native_hit(item: Any) -> Hit:
    hit = _dict(item, "a hit")
    passage = Passage(*(_text(hit, name) for name in ("id", "title", "text")))
    rank = hit.get("rank")
    if type(rank) is not int:
        raise ReplicaError("a rank is no whole number")
    return Hit(passage, _score(hit), rank)


def _search_r1_hit(item: Any) -> Hit:
    hit = _dict(item, "a hit")
    document = _dict(hit.get("document"), "a document")
    contents = _text(document, "contents")
    title, text = title_and_text(contents)
    identifier = document.get("id")
    if type(identifier) is int:
        identifier = str(identifier)
    if identifier is None:
        # Search-R1's BM25 documents have none: the same text must have the same one.
        identifier = f"sha256:{hashlib.sha256(contents.encode()).hexdigest()[:32]}"
    if not isinstance(identifier, str) or not identifier:
        raise ReplicaError("the id of a document is no text")
    return Hit(Passage(identifier, title, text), _score(hit), 0)


def _score(hit: dict[str, Any]) -> float:
    score = hit.get("score")
    if type(score) not in (int, float):
        raise ReplicaError("a score is no number")
    try:
        value = float(score)  # type: ignore[arg-type]
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ReplicaError("a score is no finite number")
    return value


def _text(holder: dict[str, Any], name: str) -> str:
    """A string that is valid Unicode: JSON can spell one that no tokenizer takes."""
    value = holder.get(name)
    if not isinstance(value, str):
        raise ReplicaError(f"{name} is no text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ReplicaError(f"{name} is not valid Unicode") from None
    return value


def _dict(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ReplicaError(f"{what} is no object")
    return value
