"""Milvus: the same engine in one file on a laptop and on a cluster, past what one machine holds.

    --retriever.name milvus --retriever.uri wiki.db --retriever.corpus wiki.jsonl.gz
    --retriever.name milvus --retriever.uri http://milvus:19530 --retriever.mode hybrid

`uri` is a path that ends in .db (Milvus Lite, in this process), the address of a server, or empty:
a temporary file, or the index folder that is being built. The collection is filled on first use and
found again afterwards; then no corpus is needed, for it holds the passages too. A cluster's token
is read from the environment variable MILVUS_TOKEN and nowhere else.

* "bm25": Milvus' BM25 function over the terms of `retrieval.analyzer` (Milvus Lite has no stemmer),
  so the same passages match as with the other BM25 engines. Scores are (k1 + 1) times those of
  `bm25s`.
* "dense": inner product of the vectors of `retrieval.encoders`.
* "hybrid": reciprocal rank fusion (`retrieval.fusion`) of the best 100 of both. Milvus could fuse
  too, but would rank equal scores by where they are stored.

Limits of Milvus Lite 3.2: one process at a time has a file open; searches of one process run one
after the other; a file is meant for up to some hundred thousand passages. Its BM25 counts terms per
segment of about 128 MB, not over all of them, so on larger corpora scores of two segments are not
quite on one scale. It has no accounts: never put its server on an open network. Milvus gives at
most 16,384 hits, and takes texts up to 65,535 bytes.
"""

import math
import re
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .. import milvus_collection as collections
from ..analyzer import ANALYZERS
from ..bm25 import check_parameters
from ..corpus import Corpus
from ..encoders import has_word, load_encoder, recipe_for
from ..errors import InputError, RetrievalError
from ..fusion import by_reciprocal_rank
from ..ranking import check_k
from ..types import Hit, Passage

NEEDS_CORPUS = False
MODES = ("bm25", "dense", "hybrid")
INDEXES = ("FLAT", "HNSW", "IVF_FLAT", "IVF_SQ8", "AUTOINDEX")
HYBRID_DEPTH = 100
# float32 scores of the same pair differ in the 7th digit with the size of the batch.
_SCORE_DECIMALS = 5
# Room for passages that tie with the last hit: which of them is one, the ids decide.
_SPARE_HITS = 16
# Hits of one request; at the usual 1 KB a passage, far below the 64 MB of an answer.
_REQUEST_HITS = 8192
_ENCODED_TOGETHER = 32


@dataclass(frozen=True, slots=True)
class Config:
    """Settings.

    Attributes:
        uri: A path that ends in .db, http://HOST:PORT, or empty for a temporary file.
        collection: Its name there: letters, digits and underscores.
        mode: "bm25", "dense" or "hybrid".
        k1: How slowly repeats of a term saturate, more than 0, at most 3.
        b: How much long passages are discounted, from 0 (not at all) to 1 (in proportion).
        analyzer: What is indexed: "english", stems without stop words; "stop", words without stop
            words; "plain", all words as they are.
        encoder: Of "dense" and "hybrid": "embedded" (all-MiniLM-L6-v2), a model folder or hub name.
        index: Milvus' vector index: FLAT (exact), HNSW, IVF_FLAT, IVF_SQ8 or AUTOINDEX.
        timeout_s: For one request to the server.
    """

    uri: str = ""
    collection: str = "passages"
    mode: str = "bm25"
    k1: float = 0.9
    b: float = 0.4
    analyzer: str = "english"
    encoder: str = "embedded"
    index: str = "FLAT"
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        check_parameters(self.k1, self.b, self.analyzer)
        if not 0 < self.k1 <= 3:
            raise InputError(f"k1 is {self.k1}: Milvus takes more than 0 and at most 3")
        if not re.fullmatch(r"[A-Za-z_]\w*", self.collection, re.ASCII):
            raise InputError(
                f"collection is {self.collection!r}: use letters, digits and underscores"
            )
        for name, value, choices in (("mode", self.mode, MODES), ("index", self.index, INDEXES)):
            if value not in choices:
                raise InputError(f"{name} is {value!r}; choose one of {', '.join(choices)}")
        if not 0 < self.timeout_s < math.inf:
            raise InputError(f"timeout_s is {self.timeout_s}: it must be more than 0")
        if self.uri and collections.is_local(self.uri) and not self.uri.endswith(".db"):
            raise InputError(
                f"uri is {self.uri!r}: give a path that ends in .db, or http://HOST:PORT"
            )

    def settings(self) -> dict[str, Any]:
        """What decides the content of the collection."""
        full_text = ("k1", "b", "analyzer") if self.mode != "dense" else ()
        vectors = ("encoder", "index") if self.mode != "bm25" else ()
        values = asdict(self)
        return {name: values[name] for name in ("mode", *full_text, *vectors)}


def needs_corpus(config: Config) -> bool:
    """Whether the collection is still to be made or filled; asks the server, if there is one."""
    if not config.uri:
        return True
    if collections.is_local(config.uri):
        # Not opened: this process would keep the file from the one that is to search it.
        return not _marker(config).exists()
    client = collections.connect(config.uri, config.timeout_s)
    try:
        with collections.failures_as(InputError, config.uri):
            said = collections.about(client, config.collection)
            if said is None:
                return True
            return collections.count(client, config.collection) < said["passages"]
    finally:
        client.close()


def _marker(config: Config) -> Path:
    """In the folder of a local file: says that the collection is whole."""
    return Path(config.uri) / f"{config.collection}.whole"


def build(config: Config, corpus: Corpus | None) -> "Milvus":
    """Open the collection; fill it first, or go on filling it, where it is not whole.

    Raises:
        InputError: No server there, a collection of another corpus or other settings, or one that
            is not whole and no corpus to fill it with.
    """
    if config.uri:
        return Milvus(config, corpus)
    folder = tempfile.TemporaryDirectory(prefix="milvus-")
    retriever = Milvus(replace(config, uri=str(Path(folder.name) / "passages.db")), corpus)
    weakref.finalize(retriever, _remove, retriever.uri, folder)
    return retriever


def _remove(uri: str, folder: tempfile.TemporaryDirectory[str]) -> None:
    collections.release(uri)
    folder.cleanup()


def write(config: Config, corpus: Corpus, folder: Path) -> None:
    """Fill the collection; it goes into the index folder where `uri` is empty."""
    uri = _uri_in(config, folder)
    try:
        Milvus(replace(config, uri=uri), corpus).close()
    finally:
        if not config.uri:
            collections.release(uri)


def read(config: Config, corpus: Corpus, folder: Path) -> "Milvus":
    """Open what `write` made."""
    return Milvus(replace(config, uri=_uri_in(config, folder)), corpus)


def _uri_in(config: Config, folder: Path) -> str:
    return config.uri or str(folder / "passages.db")


class Milvus:
    """A Retriever; threads may share it (the client is thread-safe; Milvus Lite answers in turn).

    Attributes:
        fingerprint: Of the corpus in the collection.
        uri: Where it is.
    """

    def __init__(self, config: Config, corpus: Corpus | None) -> None:
        self.uri = config.uri
        self._name = config.collection
        self._timeout_s = config.timeout_s
        self._mode = config.mode
        self._analyzer = ANALYZERS[config.analyzer]
        dimensions = 0
        if config.mode != "bm25":
            self._encoder = load_encoder(recipe_for(config.encoder))
            dimensions = self._encoder.dimension
        layout = collections.Layout(
            settings=config.settings(),
            terms=self._terms if config.mode != "dense" else None,
            bm25=(config.k1, config.b),
            vectors=self._vectors if config.mode != "bm25" else None,
            dimensions=dimensions,
            index=config.index,
        )
        self._client = collections.connect(config.uri, config.timeout_s)
        with collections.failures_as(InputError, config.uri):
            said = collections.open_collection(self._client, self._name, corpus, layout)
        if collections.is_local(config.uri):
            _marker(config).touch()
        self.fingerprint: str = said["fingerprint"]
        self._passages: int = said["passages"]

    def close(self) -> None:
        """Disconnect."""
        self._client.close()

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`.

        Raises:
            RetrievalError: The server failed or took too long.
            InputError: k < 1, or above Milvus' limit in a corpus that large.
        """
        check_k(k)
        if min(k, self._passages) > collections.MAX_HITS:
            raise InputError(f"k is {k}: Milvus gives at most {collections.MAX_HITS} hits")
        terms = [" ".join(self._analyzer.terms(query)) for query in queries]
        with collections.failures_as(RetrievalError, self.uri):
            if self._mode == "bm25":
                return self._found("sparse", terms, k)
            # A query without a word means nothing to an encoder either.
            # One at a time, so that an answer never depends on the other queries of its batch.
            vectors = [
                self._encoder.encode_queries([query], 1)[0].tolist() if has_word(query) else None
                for query in queries
            ]
            if self._mode == "dense":
                return self._found("dense", vectors, k)
            depth = min(max(k, HYBRID_DEPTH), collections.MAX_HITS)
            both = zip(
                self._found("sparse", terms, depth),
                self._found("dense", vectors, depth),
                strict=True,
            )
            return [by_reciprocal_rank(pair, (1.0, 1.0), k) for pair in both]

    def _terms(self, passage: Passage) -> str:
        return " ".join(self._analyzer.terms(f"{passage.title}\n{passage.text}"))

    def _vectors(self, passages: Sequence[Passage]) -> Any:
        return self._encoder.encode_passages(passages, _ENCODED_TOGETHER)

    def _found(self, field: str, queries: Sequence[Any], k: int) -> list[list[Hit]]:
        """The hits of queries that are text or vectors; none for an empty one."""
        answers: list[list[Hit]] = [[] for _ in queries]
        open_, limit = [place for place, query in enumerate(queries) if query], k + _SPARE_HITS
        while open_:
            limit = min(limit, self._passages, collections.MAX_HITS)
            per_request = max(1, _REQUEST_HITS // limit)
            unsure = []
            for start in range(0, len(open_), per_request):
                places = open_[start : start + per_request]
                found = self._ask(field, [queries[place] for place in places], limit)
                for place, hits in zip(places, found, strict=True):
                    answers[place] = hits[:k]
                    # All of them may tie with hits that were not fetched.
                    full = k < len(hits) == limit < min(self._passages, collections.MAX_HITS)
                    if full and hits[-1].score == hits[k - 1].score:
                        unsure.append(place)
            open_, limit = unsure, limit * 4
        return answers

    def _ask(self, field: str, queries: list[Any], limit: int) -> list[list[Hit]]:
        """One request; hits in the order of scores, then ids."""
        answers = self._client.search(
            self._name,
            data=queries,
            anns_field=field,
            limit=limit,
            output_fields=["id", "title", "text"],
            timeout=self._timeout_s,
        )
        # Milvus Lite gives BM25 scores a minus sign, a cluster does not; they are never negative.
        sign = abs if field == "sparse" else float
        return [_ordered(answer, sign) for answer in answers]


def _ordered(answer: Sequence[Any], sign: Callable[[float], float]) -> list[Hit]:
    scored = []
    for row in answer:
        entity = row["entity"]
        passage = Passage(entity["id"], entity["title"], entity["text"])
        scored.append((round(sign(row["distance"]), _SCORE_DECIMALS), passage))
    scored.sort(key=lambda pair: (-pair[0], pair[1].id))
    return [Hit(passage, score, rank) for rank, (score, passage) in enumerate(scored, 1)]
