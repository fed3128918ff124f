"""Search engines for tests: small enough to know every hit by heart."""

from collections.abc import Sequence

from retrieval.errors import RetrievalError
from retrieval.types import Hit, Passage


class Shelf:
    """Ranks passages by the number of query words they hold; ties by id. Keeps its queries."""

    def __init__(self, *passages: Passage) -> None:
        self.passages = passages
        self.queries: list[str] = []

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.queries += queries
        return [self._answer(query, k) for query in queries]

    def _answer(self, query: str, k: int) -> list[Hit]:
        wanted = set(query.lower().split())
        scored = []
        for passage in self.passages:
            words = set(f"{passage.title} {passage.text}".lower().replace(".", "").split())
            if score := len(wanted & words):
                scored.append((-score, passage.id, passage))
        ranked = enumerate(sorted(scored, key=lambda entry: entry[:2])[:k], 1)
        return [Hit(passage, float(-score), rank) for rank, (score, _, passage) in ranked]


class Fixed:
    """Gives the same hits to every query, whatever k is: an engine that breaks its contract."""

    def __init__(self, *passages: Passage) -> None:
        self.hits = [Hit(passage, 1.0 / n, n) for n, passage in enumerate(passages, 1)]

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return [list(self.hits) for _ in queries]


class Down:
    """A dead server."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        raise RetrievalError("http://localhost:8000: no answer within 5 s; start retrieval.serve")
