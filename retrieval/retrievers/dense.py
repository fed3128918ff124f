"""Dense retrieval: an encoder (sentence-transformers) and an index of its vectors (FAISS).

    score(q, p) = <encode(q), v(p)>     v(p): the vector of p as the index keeps it

Encoders are in `retrieval.encoders`, index types in `retrieval.faiss_types`. FAISS (Douze et al.,
arXiv:2401.08281) finds candidates, whose scores are then computed anew in float64
(`retrieval.vector_index`). They are rounded to 6 decimals, since two encodings of the same text may
differ by 1e-7, and equal ones are ordered by passage id. With `type` flat this is exact search.

A query without any letter or digit has no hits; any other has k, since every passage is near to
some degree. The index is memory-mapped: only what searches touch is read.

Building encodes into chunk files (`retrieval.embeddings`); killed, it goes on with the next chunk.
It refuses what this machine has no memory or disk for before it encodes anything.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import faiss_types
from ..corpus import Corpus, stream_corpus
from ..embeddings import ChunkedEmbeddings
from ..encoders import Encoder, has_word, load_encoder, recipe_for
from ..errors import InputError, RetrievalError
from ..estimate import Needs, peak_memory
from ..hub import first_line
from ..ranking import check_k
from ..types import Hit, Passage
from ..vector_index import Places, Scores, VectorIndex, Vectors, write_index

_INDEX, _ENCODER, _CHUNKS = "index.faiss", "encoder.json", "embeddings"
_SAMPLE = 256
# Machines and library versions differ by less, other weights, prefixes or pooling by more.
_SAME_ENCODER = 0.01
_PROBE = Passage("", "A probe", "What this encoder makes of one sentence identifies it.")


@dataclass(frozen=True, slots=True)
class Config:
    """Settings; of an index folder, the first seven are those it was built with.

    Attributes:
        encoder: A sentence-transformers model: a hub name, a folder, or "embedded", which is
            all-MiniLM-L6-v2 from a wheel.
        type: The index: "flat", "hnsw", "ivf", "ivf_sq8", "pq", or a FAISS factory string.
        query_prefix: Put before a query; null for what the model wants.
        passage_prefix: Put before a passage; null for what the model wants.
        pooling: Token vectors to one, "mean", "cls", "max" or "lasttoken"; null for what the model
            wants.
        nprobe: Inverted lists that a search reads; 0 for 8 times the root of their number.
        ef_search: Nodes of a graph that a search keeps, >= 1.
        batch_size: Passages that are encoded together.
        query_batch: Queries that are encoded together. At 1 an answer never depends on the other
            queries of its batch; more is faster on an accelerator, and scores may then differ in
            their last decimal.
        device: Where the encoder runs: "auto", or a torch device such as "cpu" or "cuda:1".
    """

    encoder: str = "embedded"
    type: str = "flat"
    query_prefix: str | None = None
    passage_prefix: str | None = None
    pooling: str | None = None
    nprobe: int = 0
    ef_search: int = 128
    batch_size: int = 32
    query_batch: int = 1
    device: str = "auto"

    def __post_init__(self) -> None:
        faiss_types.check_type(self.type)
        recipe_for(self.encoder, pooling=self.pooling)
        if self.nprobe < 0:
            raise InputError(f"nprobe is {self.nprobe}: give at least 1, or 0 for the default")
        for name in ("ef_search", "batch_size", "query_batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: give at least 1")


def build(config: Config, corpus: Corpus) -> "Dense":
    """Index a corpus, in a temporary folder that is removed with the engine.

    Raises:
        InputError: No such encoder or index type, or no room for the index.
    """
    scratch = tempfile.TemporaryDirectory(prefix="dense-")
    write(config, corpus, Path(scratch.name))
    engine = read(config, corpus, Path(scratch.name))
    engine.scratch = scratch
    return engine


def write(config: Config, corpus: Corpus, folder: Path) -> None:
    """Encode and index a corpus into a folder, or go on with what a killed call left there.

    Raises:
        InputError: No such encoder or index type, or no room for the index.
    """
    encoder, shape = _encoder(config), len(corpus.passages)
    chunks = folder / _CHUNKS
    if not (folder / _INDEX).exists():
        index = _empty(config, encoder, shape)
        done = sum(file.stat().st_size for file in chunks.glob("*.npy"))
        needs = _needs(index, shape)
        needs.require(folder, already=done)
        embeddings = ChunkedEmbeddings(chunks, (shape, encoder.dimension))
        embeddings.encode(
            corpus.passages, lambda some: encoder.encode_passages(some, config.batch_size)
        )
        faiss_types.fill(index, embeddings)
        write_index(index, folder / _INDEX)
    text = json.dumps({"probe": _probe(encoder).tolist()})
    (folder / _ENCODER).write_text(text, encoding="utf-8")
    shutil.rmtree(chunks, ignore_errors=True)


def read(config: Config, corpus: Corpus, folder: Path) -> "Dense":
    """Open what `write` made.

    Raises:
        InputError: It is damaged, or the encoder is not the one it was made with.
    """
    return Dense(config, corpus, folder)


def estimate(config: Config, corpus_path: Path, passages: int) -> Needs:
    """Memory and disk by arithmetic, time by encoding a sample of the corpus.

    Raises:
        InputError: No such encoder or index type.
    """
    encoder = _encoder(config)
    rows = stream_corpus(corpus_path, False)
    spread = islice(rows, 0, None, max(1, passages // _SAMPLE))
    sample = [passage for _, passage in islice(spread, _SAMPLE)]
    encoder.encode_passages(sample[:8], config.batch_size)  # the first call is slower
    began = time.monotonic()
    encoder.encode_passages(sample, config.batch_size)
    seconds = (time.monotonic() - began) / len(sample) * passages
    text = sum(len(f"{p.id}{p.title}{p.text}".encode()) + 40 for p in sample) / len(sample)
    needs = _needs(_empty(config, encoder, passages), passages)
    return Needs(
        passages,
        needs.memory_bytes + peak_memory(),
        needs.disk_bytes + passages * text,
        seconds,
        f"{needs.note}; encoding {len(sample)} passages took {seconds / passages * 1e3:,.1f} ms "
        "each, training and linking come on top",
    )


def _encoder(config: Config) -> Encoder:
    recipe = recipe_for(config.encoder, config.query_prefix, config.passage_prefix, config.pooling)
    return load_encoder(recipe, config.device)


def _empty(config: Config, encoder: Encoder, passages: int) -> Any:
    kind = faiss_types.factory(config.type, passages, encoder.dimension)
    return faiss_types.make_empty(kind, encoder.dimension)


def _needs(index: Any, passages: int) -> Needs:
    """Without the passages' own file, and without what the encoder holds."""
    size = passages * faiss_types.bytes_per_passage(index) + faiss_types.fixed_bytes(index)
    chunks = passages * 4.0 * index.d
    note = (
        f"by arithmetic: {size / 1e9:,.2f} GB of index, and until it is built "
        f"{chunks / 1e9:,.2f} GB of float32 embeddings on disk"
    )
    memory = faiss_types.memory_to_build(index, passages)
    return Needs(passages, memory, size + chunks, 0.0, note)


def _probe(encoder: Encoder) -> npt.NDArray[np.float64]:
    """What tells this encoder from another: two vectors, shape (2, dimension)."""
    passage = encoder.encode_passages([_PROBE], 1)
    query = encoder.encode_queries([_PROBE.text], 1)
    vectors: npt.NDArray[np.float64] = np.concatenate([passage, query]).astype(float).round(6)
    return vectors


class Dense:
    """A Retriever; searching only reads, so threads may share it, and take turns to encode."""

    def __init__(self, config: Config, corpus: Corpus, folder: Path) -> None:
        self._source = (config, corpus, folder)
        self._passages = corpus.passages
        self._query_batch = config.query_batch
        self._encoder = _encoder(config)
        self._index = _open(folder, self._encoder, len(corpus.passages))
        faiss_types.set_effort(self._index.index, config.nprobe, config.ef_search)
        self.scratch: tempfile.TemporaryDirectory[str] | None = None

    def __reduce__(self) -> tuple[Any, tuple[Config, Corpus, Path]]:
        # An index is not copied but mapped once more.
        return Dense, self._source

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`."""
        check_k(k)
        answers: list[list[Hit]] = [[] for _ in queries]
        asked = [place for place, query in enumerate(queries) if has_word(query)]
        if not asked:
            return answers
        try:
            texts = [queries[place] for place in asked]
            vectors = self._encoder.encode_queries(texts, self._query_batch)
            found = self.nearest(vectors, k)
        except RuntimeError as error:  # an accelerator's memory is full, or FAISS gave up
            raise RetrievalError(f"dense search failed: {first_line(error)}") from error
        for place, hits in zip(asked, found, strict=True):
            answers[place] = hits
        return answers

    def nearest(self, vectors: Vectors, k: int) -> list[list[Hit]]:
        """The hits of queries that are encoded already.

        Args:
            vectors: Shape (queries, dimension).
            k: The most hits of each, at least 1.
        """
        return [self._hits(*found, k) for found in self._index.nearest(vectors, k)]

    def _hits(self, places: Places, scores: Scores, k: int) -> list[Hit]:
        """The best first; ids decide which of those that tie with the k-th are in."""
        passages = [self._passages[place] for place in places.tolist()]
        order = sorted(range(len(passages)), key=lambda i: (-scores[i], passages[i].id))[:k]
        return [Hit(passages[i], float(scores[i]), rank) for rank, i in enumerate(order, 1)]


def _open(folder: Path, encoder: Encoder, passages: int) -> VectorIndex:
    """Map the index; InputError where it is damaged or not this encoder's."""
    index = VectorIndex(folder / _INDEX)
    if len(index) != passages:
        raise InputError(f"{folder}: indexes {len(index)} of {passages} passages; build it again")
    try:
        made_with = np.array(json.loads((folder / _ENCODER).read_text(encoding="utf-8"))["probe"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{folder}: {_ENCODER} is damaged ({error!r}); build it again") from error
    now = _probe(encoder)
    length = float(np.linalg.norm(now[0]))
    if made_with.shape != now.shape or np.abs(made_with - now).max() > _SAME_ENCODER * length:
        raise InputError(
            f"{folder}: was built with another encoder than {encoder.recipe.passage_model!r} is "
            "now; give that one, or build it again"
        )
    return index
