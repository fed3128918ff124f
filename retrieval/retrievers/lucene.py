"""BM25 by Lucene: an inverted index on disk, for corpora of any size, with RM3 if wanted.

Anserini's indexing and bag-of-words search (Lin et al., "Pyserini", SIGIR 2021, arXiv:2102.10073)
on the jar that pyserini carries; the formula is that of `bm25s`, but Lucene rounds the length of a
passage to one byte (lengths up to 40 are exact, longer ones keep four significant bits) and sums in
float32. Words are split by UAX #29 and stemmed by Porter's stemmer: see `retrieval.analyzer` for
where bm25s differs.

RM3 (Abdul-Jaleel et al., "UMass at TREC 2004") searches twice: the second query is the first one's
mixed with the terms that stand out in its best passages.

The index holds terms, and ids to break ties by; passages come from the corpus, whose order is the
order of the documents. Needs Java: see `retrieval.java`.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm

from ..anserini import RM3, Found, Searcher, write_index
from ..bm25 import NO_TERMS, check_parameters
from ..corpus import Corpus
from ..errors import InputError
from ..estimate import Needs, measured
from ..ranking import check_k
from ..scratch import Scratch
from ..types import Hit

# The longest id that Lucene sorts by.
_ID_BYTES = 32_766
# Java's heap of 2 GiB (`retrieval.java`) and what the process takes besides.
_MEMORY_BYTES = 2.7e9


@dataclass(frozen=True, slots=True)
class Config:
    """Settings; the defaults are Anserini's.

    Attributes:
        k1: How slowly repeats of a term saturate, >= 0; 0 counts only presence.
        b: How much long passages are discounted, from 0 (not at all) to 1 (in proportion).
        analyzer: What is indexed: "english", stems without stop words; "stop", words without stop
            words; "plain", all words as they are.
        rm3: Search twice, with the terms of the first search's best passages (RM3).
        rm3_passages: How many of those passages, at least 1.
        rm3_terms: How many terms they lend, at least 1.
        rm3_weight: The share of the original query in the second search, from 0 to 1.
    """

    k1: float = 0.9
    b: float = 0.4
    analyzer: str = "english"
    rm3: bool = False
    rm3_passages: int = 10
    rm3_terms: int = 10
    rm3_weight: float = 0.5

    def __post_init__(self) -> None:
        check_parameters(self.k1, self.b, self.analyzer)
        for name in ("rm3_passages", "rm3_terms"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: it must be 1 or more")
        if not 0 <= self.rm3_weight <= 1:
            raise InputError(
                f"rm3_weight is {self.rm3_weight}: it must lie within 0 and 1 (0.5 is usual)"
            )

    @property
    def feedback(self) -> RM3 | None:
        """RM3's parameters, where it is on."""
        if not self.rm3:
            return None
        return RM3(self.rm3_passages, self.rm3_terms, self.rm3_weight)


def build(config: Config, corpus: Corpus) -> "Lucene":
    """Index a corpus in a temporary folder, which is removed with the retriever.

    Raises:
        InputError: No Java, the corpus has not one term, or an id is too long.
    """
    scratch = Scratch("lucene-")
    write(config, corpus, scratch.folder)
    return Lucene(config, corpus, scratch.folder, scratch)


def write(config: Config, corpus: Corpus, folder: Path) -> None:
    """Index a corpus in a folder; what a killed build left there is dropped.

    Raises:
        InputError: No Java, the corpus has not one term, or an id is too long.
        OSError: The disk is full, or may not be written.
    """
    for left in folder.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    write_index(_documents(corpus), folder, config.analyzer, config.rm3)
    if not Searcher(folder, config.analyzer, config.k1, config.b, None).terms:
        raise InputError(NO_TERMS)


def estimate(config: Config, corpus_path: Path, passages: int) -> Needs:
    """What a build takes: memory stops growing where Java's heap is full.

    Raises:
        InputError: A sample cannot be built.
    """
    needs = measured(corpus_path, "lucene", config, passages)
    return replace(needs, memory_bytes=min(needs.memory_bytes, _MEMORY_BYTES))


def read(config: Config, corpus: Corpus, folder: Path) -> "Lucene":
    """Open what `write` wrote.

    Raises:
        InputError: No Java, or the index is damaged.
    """
    return Lucene(config, corpus, folder)


class Lucene:
    """A Retriever; threads may share it, processes only if they are spawned, not forked."""

    def __init__(
        self,
        config: Config,
        corpus: Corpus,
        folder: Path,
        scratch: Scratch | None = None,
    ) -> None:
        """Open an index; `scratch` is removed with the retriever."""
        self._passages = corpus.passages
        self._scratch = scratch
        self._searcher = Searcher(folder, config.analyzer, config.k1, config.b, config.feedback)
        if self._searcher.documents != len(corpus.passages):
            raise InputError(
                f"{folder}: has {self._searcher.documents:,} documents for "
                f"{len(corpus.passages):,} passages; build the index again"
            )
        self._arguments = (config, corpus, folder)

    def __reduce__(self) -> tuple[type["Lucene"], tuple[Config, Corpus, Path]]:
        # A copy in another process opens the same folder.
        return Lucene, self._arguments

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`."""
        check_k(k)
        return self._searcher.search(queries, k, self._hits)

    def _hits(self, answer: list[Found]) -> list[Hit]:
        return [
            Hit(self._passages[found.number], found.score, rank)
            for rank, found in enumerate(answer, 1)
        ]


def _documents(corpus: Corpus) -> Iterator[tuple[str, str]]:
    """(id, contents) of every passage."""
    for passage in tqdm(corpus.passages, desc="index", unit=" passages", delay=1, disable=None):
        if len(passage.id.encode()) > _ID_BYTES:
            raise InputError(
                f"passage id {passage.id[:20]!r}... is longer than {_ID_BYTES:,} bytes; "
                "lucene needs shorter ids"
            )
        yield passage.id, f"{passage.title}\n{passage.text}"
