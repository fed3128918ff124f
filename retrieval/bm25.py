"""What the BM25 engines share: parameters within their range, passages as lists of terms."""

from tqdm import tqdm

from .analyzer import ANALYZERS, Analyzer
from .corpus import Corpus
from .errors import InputError


def check_parameters(k1: float, b: float, analyzer: str) -> None:
    """Check BM25's two parameters and the analyzer's name.

    Raises:
        InputError: k1 is negative or not finite, b lies outside 0..1, or an unknown analyzer.
    """
    if not 0 <= k1 < float("inf"):
        raise InputError(f"k1 is {k1}: it must be 0 or more (0.9 is usual)")
    if not 0 <= b <= 1:
        raise InputError(f"b is {b}: it must lie within 0 and 1 (0.4 is usual)")
    if analyzer not in ANALYZERS:
        raise InputError(f"analyzer is {analyzer!r}; choose one of {', '.join(ANALYZERS)}")


def index_terms(corpus: Corpus, analyzer: Analyzer) -> list[list[str]]:
    """The terms of every passage, title and text together, in corpus order.

    Raises:
        InputError: The whole corpus has not one term.
    """
    passages = tqdm(corpus.passages, desc="index", unit=" passages", delay=1, disable=None)
    documents = [analyzer.terms(f"{passage.title}\n{passage.text}") for passage in passages]
    if not any(documents):
        raise InputError("no passage has a term to index: check the texts, or keep stop words")
    return documents
