"""What the BM25 engines share: parameters within their range, passages as lists of terms."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from tqdm import tqdm

from .analyzer import ANALYZERS, Analyzer
from .corpus import Corpus
from .errors import InputError

NO_TERMS = "no passage has a term to index: check the texts, or keep stop words"


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
    documents = list(_terms(corpus, analyzer))
    if not any(documents):
        raise InputError(NO_TERMS)
    return documents


class Numbers(Sequence[list[int]]):
    """Lists of numbers in 4 bytes a number, for corpora whose terms would not fit as objects."""

    def __init__(self) -> None:
        self._flat = array("i")
        self._ends = array("q", [0])

    def append(self, numbers: Iterable[int]) -> None:
        """Add a list."""
        self._flat.extend(numbers)
        self._ends.append(len(self._flat))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...
    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        return self._flat[self._ends[place] : self._ends[place + 1]].tolist()


@dataclass(frozen=True, slots=True)
class NumberedTerms:
    """The terms of every passage as numbers.

    Attributes:
        ids: Of each passage in corpus order.
        vocab: The number of each term, from 0 in the order of their first occurrence.
    """

    ids: Numbers
    vocab: dict[str, int]


def number_terms(corpus: Corpus, analyzer: Analyzer) -> NumberedTerms:
    """What `index_terms` gives, in a tenth of its memory.

    Raises:
        InputError: The whole corpus has not one term.
    """
    found = NumberedTerms(Numbers(), {})
    for terms in _terms(corpus, analyzer):
        found.ids.append([found.vocab.setdefault(term, len(found.vocab)) for term in terms])
    if not found.vocab:
        raise InputError(NO_TERMS)
    return found


def _terms(corpus: Corpus, analyzer: Analyzer) -> Iterator[list[str]]:
    passages = tqdm(corpus.passages, desc="index", unit=" passages", delay=1, disable=None)
    return (analyzer.terms(f"{passage.title}\n{passage.text}") for passage in passages)
