"""A search engine for tests that does what its query says: --retriever tests.retrieval.odd_engine.

"until FILE" answers once that file is there, "fail" is a RetrievalError, "bug" a KeyError, "refuse"
an InputError, "nan" has a score that is no number, "few" gets no answer at all. Any other query
finds the first k passages.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from retrieval.corpus import Corpus
from retrieval.errors import InputError, RetrievalError
from retrieval.types import Hit


@dataclass(frozen=True, slots=True)
class Config:
    """No settings."""


def build(config: Config, corpus: Corpus) -> "OddEngine":
    """Over any corpus."""
    return OddEngine(corpus)


class OddEngine:
    """Remembers its calls; one thread at a time."""

    def __init__(self, corpus: Corpus) -> None:
        self._passages = list(corpus.passages)
        self.calls: list[tuple[list[str], int]] = []

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See the module."""
        self.calls.append((list(queries), k))
        answers = [self._hits(query, k) for query in queries]
        return [answer for answer, query in zip(answers, queries, strict=True) if query != "few"]

    def _hits(self, query: str, k: int) -> list[Hit]:
        order, _, file = query.partition(" ")
        if order == "until":
            while not Path(file).exists():
                time.sleep(0.01)
        elif order == "fail":
            raise RetrievalError("the disk\nis gone")
        elif order == "bug":
            raise KeyError("nobody foresaw this")
        elif order == "refuse":
            raise InputError("not such a query: ask another")
        score = float("nan") if order == "nan" else 1.0
        return [Hit(p, score, rank) for rank, p in enumerate(self._passages[:k], 1)]
