"""The nouns of retrieval: Passage, Hit, Retriever."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Passage:
    """One unit of retrieval.

    Attributes:
        id: Unique within a corpus.
        title: May be empty.
        text: The passage without its title.
    """

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result.

    Attributes:
        passage: What was found.
        score: The engine's own score; comparable only within one answer.
        rank: 1 is best. Equal scores are ordered by passage id, so that order is reproducible.
    """

    passage: Passage
    score: float
    rank: int


class Retriever(Protocol):
    """A search engine: batch in, batch out.

    One that works in another process may have an attribute `elsewhere = True`: whoever has more to
    do meanwhile then asks it from a thread.
    """

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Find passages.

        Args:
            queries: Any strings; an empty or unmatched query has no hits, it is not an error.
            k: The most hits per query; a corpus smaller than k gives fewer.

        Returns:
            One list per query, in order; ranks 1..n, scores non-increasing, no passage twice.

        Raises:
            RetrievalError: The engine failed.
            InputError: k < 1.
        """
        ...
