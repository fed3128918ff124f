"""What the Lucene engines call of Anserini and Lucene, in Python's types.

An index is what Anserini's own indexer makes, terms and their counts in the field `contents` and a
sortable `id`, but for one thing: it stores no ids. Documents stay in the order they came in, so
that their numbers tell which they are; looking up stored ids takes Lucene half as long again as the
search itself. Indexes of Anserini's, which store them, are searched as well.

A search is Anserini's bag of words: the query's terms, each weighted by how often it stands there,
scored by Lucene's BM25, equal scores by id; RM3 is its reranker. pyserini's searcher finds the
same, but rounds scores to four decimals and takes 1e-6 off each that ties.
"""

import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from .errors import InputError, RetrievalError
from .java import check_process, close, failures, java_class

# Analyzer's name -> (stemmer, keep stop words), as Anserini's indexer takes them.
_ANALYZERS = {"english": ("porter", False), "stop": ("none", False), "plain": ("none", True)}
_BUFFER_MB = 256.0
_BATCH_DOCUMENTS = 1000
# What Java's String.trim() drops; Anserini refuses a document of which nothing is left.
_BLANK = "".join(map(chr, range(33)))
# One more than there are cores: one waits for Python's lock while the others are in Java.
_THREADS = len(os.sched_getaffinity(0)) + 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RM3:
    """Pseudo-relevance feedback: a second search for the first one's query and its answers' terms.

    Attributes:
        passages: How many answers of the first search lend their terms.
        terms: How many of those terms are taken.
        weight: The share of the original query, from 0 to 1.
    """

    passages: int
    terms: int
    weight: float


class Found(NamedTuple):
    """A hit.

    Attributes:
        number: The document's place in the index.
        id: Its id, where the index stores ids.
        score: Lucene's, a float32.
        document: Its stored fields, where they were asked for.
    """

    number: int
    id: str | None
    score: float
    document: dict[str, str | None]


def write_index(
    documents: Iterable[tuple[str, str]], folder: Path, analyzer: str, vectors: bool
) -> None:
    """Index documents one by one, numbered from 0; the folder's former index is replaced.

    Args:
        documents: (id, contents); ids break ties.
        folder: Exists.
        analyzer: See `retrieval.analyzer.ANALYZERS`.
        vectors: Keep each document's terms too, which RM3 reads.

    Raises:
        InputError: Lucene refuses a document, or Java runs out of memory.
        OSError: The disk is full, or may not be written.
    """
    args = java_class("io.anserini.index.IndexCollection$Args")()
    args.storeDocvectors = vectors
    generator = java_class("io.anserini.index.generator.DefaultLuceneDocumentGenerator")(args)
    with failures(InputError, str(folder)):
        writer = _writer(folder, analyzer)
        try:
            rest = iter(documents)
            while batch := list(islice(rest, _BATCH_DOCUMENTS)):
                made = java_class("java.util.ArrayList")(len(batch))
                for name, contents in batch:
                    made.add(_document(generator, name, contents))
                writer.addDocuments(made)
            writer.commit()
            writer.close()
        except BaseException:
            writer.rollback()
            raise


def _document(generator: Any, name: str, contents: str) -> Any:
    if not contents.strip(_BLANK):
        return java_class("org.apache.lucene.document.Document")()  # takes a number, no more
    row = java_class("io.anserini.collection.JsonCollection$Document")
    document = generator.createDocument(row.fromFields(name, contents))
    document.removeField("id")  # the stored one; the sortable one stays
    return document


class Searcher:
    """An open index; threads may share it.

    Searches run on a pool of threads that the whole process shares: Java keeps a record of every
    thread that ever called it.

    Attributes:
        documents: How many it holds.
        terms: How many, repeats included.
    """

    def __init__(self, folder: Path, analyzer: str, k1: float, b: float, rm3: RM3 | None) -> None:
        """Open it.

        Raises:
            InputError: No Lucene index, a damaged one, or one that RM3 cannot read.
        """
        similarity = java_class("org.apache.lucene.search.similarities.BM25Similarity")
        with failures(InputError, f"{folder} cannot be opened as a Lucene index"):
            self._reader = java_class("org.apache.lucene.index.DirectoryReader").open(
                _directory(folder)
            )
            self._searcher = java_class("org.apache.lucene.search.IndexSearcher")(
                self._reader, signature="(Lorg/apache/lucene/index/IndexReader;)V"
            )
            weakref.finalize(self, close, self._reader).atexit = False
            self._searcher.setSimilarity(similarity(float(k1), float(b)))
            self._sort = _by_score_then_id(self._reader)
            self._analyzer = _analyzer(analyzer)
            self._generator = java_class("io.anserini.search.query.BagOfWordsQueryGenerator")()
            self._scored = java_class("io.anserini.search.ScoredDocs")
            self._feedback = None if rm3 is None else self._reranker(folder, rm3)
            self.documents = int(self._reader.numDocs())
            self._feedback_passages = 0 if rm3 is None else min(rm3.passages, self.documents)
            statistics = self._searcher.collectionStatistics("contents")
            self.terms = 0 if statistics is None else int(statistics.sumTotalTermFreq())

    def search(
        self,
        queries: Sequence[str],
        k: int,
        make: Callable[[list[Found]], list[T]],
        fields: Sequence[str] = (),
    ) -> list[list[T]]:
        """The best documents of each query; none where no term matches.

        Args:
            queries: Any strings.
            k: The most hits per query, at least 1.
            make: What to make of a query's hits, best first; called by several threads, so that
                one reads passages while another waits for Java.
            fields: Stored fields to read.

        Raises:
            RetrievalError: Lucene failed, or this process is a fork.
        """
        check_process()
        k = min(k, max(1, self.documents))
        found: list[list[T]] = [[] for _ in queries]
        rest = iter(enumerate(queries))

        def work() -> None:
            for place, query in rest:  # which all workers share: each takes the next one
                found[place] = make(self._search(query, k, fields))

        with failures(RetrievalError, "Lucene failed"):
            workers = [_pool().submit(work) for _ in range(min(_THREADS, len(queries)))]
            for worker in workers:
                worker.result()
        return found

    def stored(self, name: str, fields: Sequence[str]) -> dict[str, str | None] | None:
        """Stored fields of the document with this id; None where there is no such document."""
        found = java_class("io.anserini.index.IndexReaderUtils").document(self._reader, name)
        return None if found is None else {field: found.get(field) for field in fields}

    def first(self, fields: Sequence[str]) -> dict[str, str | None]:
        """Stored fields of the first document."""
        document = self._reader.storedFields().document(0)
        return {field: document.get(field) for field in fields}

    def _search(self, text: str, k: int, fields: Sequence[str]) -> list[Found]:
        # A lone surrogate cannot be passed to Java; "?" separates words as it does.
        text = text.encode("utf-8", "replace").decode()
        query = self._generator.buildQuery("contents", self._analyzer, text)
        found = self._top(query, k if self._feedback is None else self._feedback_passages)
        if self._feedback is not None and found.docids:
            found = self._feedback.rerank(found, self._context(query, text, k))
        names = found.docids
        stored: list[dict[str, str | None]] = [{}] * len(names)
        if fields:
            stored = [{f: doc.get(f) for f in fields} for doc in found.lucene_documents]
        each = zip(found.lucene_docids, names, found.scores, stored, strict=True)
        hits = [Found(*one) for one in each]
        return hits if self._sort else sorted(hits, key=lambda hit: (-hit.score, hit.id))

    def _top(self, query: Any, k: int) -> Any:
        """The k best documents of a Lucene query, as Anserini's ScoredDocs."""
        if self._sort is None:
            top = self._searcher.search(query, k)
        else:
            top = self._searcher.search(query, k, self._sort, True)
        return self._scored.fromTopDocs(top, self._searcher)

    def _reranker(self, folder: Path, rm3: RM3) -> Any:
        if self._reader.numDocs() and self._reader.getTermVectors(0) is None:
            raise InputError(
                f"{folder}: RM3 needs an index with document vectors; build it with rm3 on "
                "(pyserini: --storeDocvectors), or set rm3 to false"
            )
        return java_class("io.anserini.rerank.lib.Rm3Reranker")(
            self._analyzer,
            None,
            "contents",
            rm3.terms,
            rm3.passages,
            float(rm3.weight),
            False,
            True,
        )

    def _context(self, query: Any, text: str, k: int) -> Any:
        args = java_class("io.anserini.search.SearchCollection$Args")()
        args.hits, args.arbitraryScoreTieBreak = k, self._sort is None
        tokens = java_class("io.anserini.analysis.AnalyzerUtils").analyze(self._analyzer, text)
        return java_class("io.anserini.rerank.RerankerContext")(
            self._searcher, "", query, None, text, tokens, None, args
        )


def analyze(analyzer: str, text: str) -> list[str]:
    """The terms that Lucene makes of a text."""
    made = java_class("io.anserini.analysis.AnalyzerUtils").analyze(_analyzer(analyzer), text)
    return [str(term) for term in made.toArray()]


@cache
def _analyzer(name: str) -> Any:
    stemmer, keep = _ANALYZERS[name]
    kind = java_class("io.anserini.analysis.DefaultEnglishAnalyzer")
    return kind.fromArguments(stemmer, keep, None)


def _by_score_then_id(reader: Any) -> Any:
    """The order of hits; None for indexes of Lucene 8, which cannot sort by id.

    There Lucene itself chooses among the documents that tie with the last hit.
    """
    fields = java_class("org.apache.lucene.index.FieldInfos").getMergedFieldInfos(reader)
    field = fields.fieldInfo("id")
    if field is None or field.getDocValuesType().toString() != "BINARY":
        return None
    kind = java_class("org.apache.lucene.search.SortField")
    by_id = kind(
        "id",
        java_class("org.apache.lucene.search.SortField$Type").STRING_VAL,
        signature="(Ljava/lang/String;Lorg/apache/lucene/search/SortField$Type;)V",
    )
    return java_class("org.apache.lucene.search.Sort")(kind.FIELD_SCORE, by_id)


def _directory(folder: Path) -> Any:
    path = java_class("java.io.File")(str(folder.absolute())).toPath()
    return java_class("org.apache.lucene.store.FSDirectory").open(path)


def _writer(folder: Path, analyzer: str) -> Any:
    settings = java_class("org.apache.lucene.index.IndexWriterConfig")(_analyzer(analyzer))
    settings.setOpenMode(java_class("org.apache.lucene.index.IndexWriterConfig$OpenMode").CREATE)
    settings.setRAMBufferSizeMB(_BUFFER_MB)
    settings.setUseCompoundFile(False)
    # Merges neighbours only: the documents stay in order.
    settings.setMergePolicy(java_class("org.apache.lucene.index.LogByteSizeMergePolicy")())
    return java_class("org.apache.lucene.index.IndexWriter")(_directory(folder), settings)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="lucene")
