"""BM25 with every score computed at index time: the engine for corpora that fit in memory.

bm25s (Lù, "BM25S: Orders of magnitude faster lexical search via eager sparse scoring",
arXiv:2407.03618) in the exact Lucene variant (Kamphuis et al., ECIR 2020):

    score(q, d) = sum over t in q of idf(t) * tf / (tf + k1 * (1 - b + b * |d| / avgdl))
    idf(t)      = ln(1 + (N - df + 0.5) / (df + 0.5))

N passages; df of them hold term t; d holds it tf times and is |d| terms long, avgdl on average. A
term that the query repeats counts as often. Lucene itself rounds |d| to one byte; this does not.

A hit shares a term with the query, and because idf > 0 its score is positive. Scores are float64
and the library's own top-k is not used, since it breaks ties by position and not by passage id.

An index folder holds what the library saves and `id_ranks.npy`; opened, all but the vocabulary is
memory-mapped.
"""

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import bm25s
import numpy as np

from ..analyzer import ANALYZERS, Analyzer
from ..bm25 import check_parameters, number_terms
from ..corpus import Corpus
from ..errors import InputError
from ..ranking import Ranker, check_k, rank_ids
from ..types import Hit

_ID_RANKS = "id_ranks.npy"


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
    return BM25s(ANALYZERS[config.analyzer], _index(config, corpus), Ranker(corpus))


def write(config: Config, corpus: Corpus, folder: Path) -> None:
    """Index a corpus and save that; files of a killed build are written over.

    Raises:
        InputError: The corpus has not one term.
        OSError: The disk is full, or may not be written.
    """
    _index(config, corpus).save(folder, show_progress=False)
    np.save(folder / _ID_RANKS, rank_ids(corpus))
    try:
        read(config, corpus, folder)
    except InputError as error:  # numpy says nothing when the last 4 KB find no room
        raise OSError(errno.ENOSPC, "the engine's files are cut short") from error


def read(config: Config, corpus: Corpus, folder: Path) -> "BM25s":
    """Open what `write` saved.

    Raises:
        InputError: Files are missing, damaged or of another corpus.
    """
    try:
        index = bm25s.BM25.load(folder, mmap=True, show_progress=False)
        ranks = np.load(folder / _ID_RANKS, mmap_mode="r")
    except (OSError, EOFError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{folder}: cannot be read ({error}); build the index again") from error
    scores, passages = index.scores, len(corpus.passages)
    whole = len(scores["data"]) == len(scores["indices"]) == scores["indptr"][-1]
    if not whole or not scores["num_docs"] == len(ranks) == passages:
        raise InputError(f"{folder}: is damaged or of another corpus; build the index again")
    return BM25s(ANALYZERS[config.analyzer], index, Ranker(corpus, ranks))


class BM25s:
    """A Retriever; searching only reads, so threads may share it."""

    def __init__(self, analyzer: Analyzer, index: bm25s.BM25, ranker: Ranker) -> None:
        self._analyzer = analyzer
        self._index = index
        self._ranker = ranker

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


def _index(config: Config, corpus: Corpus) -> bm25s.BM25:
    index = bm25s.BM25(k1=config.k1, b=config.b, method="lucene", dtype="float64")
    index.index(number_terms(corpus, ANALYZERS[config.analyzer]), show_progress=False)
    return index
