"""BM25 in plain Python: small corpora, and a second opinion on faster engines.

rank_bm25's BM25Okapi, the ATIRE variant of Trotman et al., "Improvements to BM25 and Language
Models Examined" (ADCS 2014):

    score(q, d) = sum over t in q of idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * |d| / avgdl))
    idf(t)      = ln((N - df + 0.5) / (df + 0.5)), or epsilon * mean idf where that is negative

N passages; df of them hold term t; d holds it tf times and is |d| terms long, avgdl on average. A
term that the query repeats counts as often.

A hit shares a term with the query. Its score may be zero (a term that half of the passages hold)
or, where a corpus is so small that the mean idf is negative, below zero; so matches come from an
inverted list, never from the sign of a score. The library scores the matched passages only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import rank_bm25

from ..analyzer import ANALYZERS
from ..bm25 import check_parameters, index_terms
from ..corpus import Corpus
from ..errors import InputError
from ..ranking import Ranker, check_k
from ..types import Hit


@dataclass(frozen=True, slots=True)
class Config:
    """Settings; k1 and b are Anserini's, epsilon is the library's.

    Attributes:
        k1: How slowly repeats of a term saturate, > 0 (at 0 the library divides 0 by 0).
        b: How much long passages are discounted, from 0 (not at all) to 1 (in proportion).
        epsilon: What share of the mean idf a term gets that more than half of the passages hold,
            >= 0.
        analyzer: What is indexed: "english", stems without stop words; "stop", words without stop
            words; "plain", all words as they are.
    """

    k1: float = 0.9
    b: float = 0.4
    epsilon: float = 0.25
    analyzer: str = "english"

    def __post_init__(self) -> None:
        check_parameters(self.k1, self.b, self.analyzer)
        if self.k1 == 0:
            raise InputError("k1 is 0: rank_bm25 needs more than 0; bm25s can do without")
        if not 0 <= self.epsilon < float("inf"):
            raise InputError(f"epsilon is {self.epsilon}: it must be 0 or more (0.25 is usual)")


def build(config: Config, corpus: Corpus) -> "RankBM25":
    """Index a corpus.

    Raises:
        InputError: The corpus has not one term.
    """
    return RankBM25(config, corpus)


class RankBM25:
    """A Retriever; searching only reads, so threads may share it."""

    def __init__(self, config: Config, corpus: Corpus) -> None:
        self._analyzer = ANALYZERS[config.analyzer]
        self._ranker = Ranker(corpus)
        documents = index_terms(corpus, self._analyzer)
        self._index = rank_bm25.BM25Okapi(
            documents, k1=config.k1, b=config.b, epsilon=config.epsilon
        )
        self._positions: dict[str, list[int]] = {}
        for position, terms in enumerate(documents):
            for term in set(terms):
                self._positions.setdefault(term, []).append(position)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`."""
        check_k(k)
        return [self._hits(query, k) for query in queries]

    def _hits(self, query: str, k: int) -> list[Hit]:
        """The hits of one query."""
        terms = [term for term in self._analyzer.terms(query) if term in self._positions]
        if not terms:
            return []
        matched = sorted(set().union(*(self._positions[term] for term in terms)))
        scores = self._index.get_batch_scores(terms, matched)
        return self._ranker.hits(np.array(matched), np.array(scores), k)
