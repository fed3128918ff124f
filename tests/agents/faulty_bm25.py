"""BM25 whose calls fail at random: --retriever.name tests.agents.faulty_bm25."""

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from retrieval.corpus import Corpus
from retrieval.errors import RetrievalError
from retrieval.retrievers import bm25s
from retrieval.types import Hit, Retriever


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        share: Of the calls that fail, from 0 to 1.
        seed: Of which they are.
    """

    share: float = 0.3
    seed: int = 0


def build(config: Config, corpus: Corpus) -> "Faulty":
    """Over any corpus."""
    return Faulty(bm25s.build(bm25s.Config(), corpus), config)


class Faulty:
    """Wraps an engine; threads may share it.

    Attributes:
        failed: Calls that failed.
        calls: All calls.
    """

    def __init__(self, engine: Retriever, config: Config) -> None:
        self._engine, self._share = engine, config.share
        self._random = random.Random(config.seed)
        self._lock = threading.Lock()
        self.failed = self.calls = 0

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`."""
        with self._lock:
            fails = self._random.random() < self._share
            self.calls += 1
            self.failed += fails
        if fails:
            raise RetrievalError("injected fault")
        return self._engine.search(queries, k)
