"""Ablation: passages drawn at random. What an agent scores with it, searching did not earn.

The score of a passage for a query is a uniform draw from 0 to 1 of a generator that is seeded with
the query's bytes: the same query has the same answer, in any process and any batch, and a search
for fewer passages gives the first of a search for more. A query without a letter or a digit finds
nothing, as with the other engines.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..analyzer import ANALYZERS
from ..corpus import Corpus
from ..ranking import Ranker, check_k
from ..types import Hit


@dataclass(frozen=True, slots=True)
class Config:
    """Settings.

    Attributes:
        seed: Another seed, other passages.
    """

    seed: int = 0


def build(config: Config, corpus: Corpus) -> "Random":
    """Nothing is indexed."""
    return Random(config, corpus)


class Random:
    """A Retriever; threads may share it. A search takes time in proportion to the corpus."""

    def __init__(self, config: Config, corpus: Corpus) -> None:
        self._seed = config.seed
        self._ranker = Ranker(corpus)
        self._positions = np.arange(len(corpus.passages))

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`."""
        check_k(k)
        return [self._hits(query, k) for query in queries]

    def _hits(self, query: str, k: int) -> list[Hit]:
        if not ANALYZERS["plain"].terms(query):
            return []
        # Agents may write lone surrogates, which UTF-8 has no bytes for.
        text = f"{self._seed}\n{query}".encode(errors="surrogatepass")
        seed = int.from_bytes(hashlib.sha256(text).digest(), "big")
        scores = np.random.default_rng(seed).random(len(self._positions))
        return self._ranker.hits(self._positions, scores, k)
