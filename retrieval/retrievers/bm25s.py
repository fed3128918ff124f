"""BM25 with every score computed at index time: the engine for corpora that fit in memory.

bm25s (Lù, "BM25S: Orders of magnitude faster lexical search via eager sparse scoring",
arXiv:2407.03618) in the exact Lucene variant (Kamphuis et al., ECIR 2020):

    score(q, d) = sum over t in q of idf(t) * tf / (tf + k1 * (1 - b + b * |d| / avgdl))
    idf(t)      = ln(1 + (N - df + 0.5) / (df + 0.5))

N passages; df of them hold term t; d holds it tf times and is |d| terms long, avgdl on average. A
term that the query repeats counts as often. Lucene itself rounds |d| to one byte; this does not.

A hit shares a term with the query, and because idf > 0 its score is positive. Scores are float64
and the library's own top-k is not used, since it breaks ties by position and not by passage id.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import bm25s
import numpy as np

from ..analyzer import ANALYZERS
from ..bm25 import check_parameters, index_terms
from ..corpus import Corpus
from ..ranking import Ranker, check_k
from ..types import Hit


@dataclass(frozen=True, slots=True)
class Config:
    """Settings; the defaults are Anserini's.

    Attributes:
        k1: How slowly repeats of a term saturate, >= 0; 0 counts only presence.
        b: How much long passages are discounted, from 0 (not at all) to 1 (in proportion).
        analyzer: What is indexed: "english", stems without stop words; "stop", words without stop
            words; "plain", all words as they are.
    """

    k1: float = 0.9
    b: float = 0.4
    analyzer: str = "english"

    def __post_init__(self) -> None:
        check_parameters(self.k1, self.b, self.analyzer)


def build(config: Config, corpus: Corpus) -> "BM25s":
    """Index a corpus.

    Raises:
        InputError: The corpus has not one term.
    """
    return BM25s(config, corpus)


class BM25s:
    """A Retriever; searching only reads, so threads may share it."""

    def __init__(self, config: Config, corpus: Corpus) -> None:
        self._analyzer = ANALYZERS[config.analyzer]
        self._ranker = Ranker(corpus)
        self._index = bm25s.BM25(k1=config.k1, b=config.b, method="lucene", dtype="float64")
        self._index.index(index_terms(corpus, self._analyzer), show_progress=False)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`."""
        check_k(k)
        return [self._hits(query, k) for query in queries]

    def _hits(self, query: str, k: int) -> list[Hit]:
        """The hits of one query."""
        term_ids = self._index.get_tokens_ids(self._analyzer.terms(query))
        if not term_ids:
            return []
        scores = self._index.get_scores_from_ids(term_ids)  # (N,)
        matched = np.flatnonzero(scores > 0)
        return self._ranker.hits(matched, scores[matched], k)
