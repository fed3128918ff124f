"""FAISS index types on the vectors of a flat dense index: size, recall of the exact top 10, speed.

    python -m benchmarks.vectors --index indexes/wiki-dense \
        --questions ../shared/data/nq/nq_open_with_corpus.jsonl

Every type is built anew from the flat index's vectors. "raw" is FAISS's own `search` of the same
object with the same query vectors; ours scores the candidates again and puts ties in order. Both
sides alternate within one process; prints medians.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from retrieval import faiss_types
from retrieval.encoders import load_encoder, recipe_for
from retrieval.index import ENGINE, read_manifest
from retrieval.vector_index import VectorIndex, write_index

K = 10
Vectors = npt.NDArray[np.float32]


class Stored:
    """The vectors of a flat index, read as `faiss_types.fill` reads embeddings."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self.shape = vectors.shape

    def sample(self, size: int) -> Vectors:
        """Drawn with seed 0."""
        places = np.random.default_rng(0).choice(len(self._vectors), size, replace=False)
        return self._vectors[np.sort(places)]

    def __iter__(self) -> Iterator[Vectors]:
        return (self._vectors[start : start + 4096] for start in range(0, self.shape[0], 4096))


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", type=Path, required=True, help="A `dense` index, type flat.")
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--types", nargs="+", default=list(faiss_types.NAMES))
    parser.add_argument(
        "--nprobe", type=int, default=0, help="Lists that are read; 0: the default."
    )
    parser.add_argument(
        "--copies", type=int, default=1, help="Search so many noisy copies of the vectors."
    )
    args = parser.parse_args()
    flat = VectorIndex(args.index / ENGINE / "index.faiss").index
    vectors = _copied(flat.reconstruct_n(0, flat.ntotal), args.copies)
    queries = _encoded(args.index, args.questions, args.queries)
    exact: list[set[int]] = []
    print(f"| type | FAISS | build s | MB | of flat | recall@{K} | ours q/s | raw q/s | ratio |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    flat_bytes = 0
    with tempfile.TemporaryDirectory(prefix="vectors-") as scratch:
        for name in tqdm(args.types, desc="types", unit="type"):
            kind = faiss_types.factory(name, *vectors.shape)
            began = time.perf_counter()
            index = faiss_types.make_empty(kind, vectors.shape[1])
            stored: Any = Stored(vectors)
            faiss_types.fill(index, stored)
            seconds = time.perf_counter() - began
            file = Path(scratch) / name.replace(",", "-")
            write_index(index, file)
            opened = VectorIndex(file)
            faiss_types.set_effort(opened.index, args.nprobe, ef_search=128)
            found = [set(places.tolist()) for places, _ in opened.nearest(queries, K)]
            size = file.stat().st_size
            if not exact:
                exact, flat_bytes = found, size
            recall = statistics.mean(
                min(1.0, len(a & b) / K) for a, b in zip(found, exact, strict=True)
            )
            ours, raw = _rates(opened, queries, args.repetitions)
            print(
                f"| `{name}` | {kind} | {seconds:.1f} | {size / 1e6:.1f} | {size / flat_bytes:.2f} "
                f"| {recall:.3f} | {ours:,.0f} | {raw:,.0f} | {ours / raw:.2f} |",
                flush=True,
            )


def _copied(vectors: Vectors, copies: int) -> Vectors:
    """More vectors that lie as these do: each with noise of a fifth of its length, seed 0."""
    noise = np.random.default_rng(0).standard_normal
    size = 0.2 * float(np.linalg.norm(vectors, axis=1).mean()) / vectors.shape[1] ** 0.5
    more = [vectors + size * noise(vectors.shape, dtype=np.float32) for _ in range(copies - 1)]
    return np.concatenate([vectors, *more])


def _encoded(index: Path, questions: Path, count: int) -> Vectors:
    with questions.open(encoding="utf-8") as lines:
        texts = [json.loads(line)["question"] for line in lines][:count]
    config = read_manifest(index)["config"]
    return load_encoder(recipe_for(config["encoder"])).encode_queries(texts, 32)


def _rates(opened: VectorIndex, queries: Vectors, repetitions: int) -> tuple[float, float]:
    """Median queries per second: (ours, FAISS's own search)."""
    sides: list[Callable[[], object]] = [
        lambda: opened.nearest(queries, K),
        lambda: opened.index.search(queries, K),
    ]
    rates: list[list[float]] = [[], []]
    for _ in range(repetitions):
        for side, rate in zip(sides, rates, strict=True):
            began = time.perf_counter()
            side()
            rate.append(len(queries) / (time.perf_counter() - began))
    return statistics.median(rates[0]), statistics.median(rates[1])


if __name__ == "__main__":
    main()
