"""Our Lucene engine against pyserini's own `batch_search`, on the same passages, in one process.

    python -m benchmarks.lucene_raw --index indexes/wiki-lucene \
        --questions ../shared/data/nq/nq_open_with_corpus.jsonl

pyserini searches an index that Anserini's own IndexCollection made of the same passages, and gives
ids and scores; ours also reads the passages. Sides alternate; prints medians.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tqdm import trange

from retrieval.corpus import Corpus
from retrieval.index import open_index
from retrieval.java import java_class
from retrieval.types import Retriever

Raw = Callable[[list[str], int], object]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", type=Path, required=True, help="An index folder of `lucene`.")
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    with args.questions.open(encoding="utf-8") as lines:
        queries = [json.loads(line)["question"] for line in lines][: args.queries]
    opened = open_index(args.index)
    ours = opened.retriever
    with tempfile.TemporaryDirectory(prefix="anserini-") as scratch:
        raw = _pyserini(opened.corpus, Path(scratch), args.threads)
        _compare(ours, raw, queries, args.repetitions)


def _compare(ours: Retriever, raw: Raw, queries: list[str], repetitions: int) -> None:
    for k in (3, 10):
        sides: dict[str, Callable[[], object]] = {
            "ours": lambda k=k: ours.search(queries, k),
            "pyserini": lambda k=k: raw(queries, k),
        }
        for side in sides.values():
            side()
        rates: dict[str, list[float]] = {name: [] for name in sides}
        for _ in trange(repetitions, desc=f"k={k}", leave=False):
            for name, side in sides.items():
                began = time.perf_counter()
                side()
                rates[name].append(len(queries) / (time.perf_counter() - began))
        ours_rate, raw_rate = (statistics.median(rates[name]) for name in ("ours", "pyserini"))
        print(
            f"k={k}: ours {ours_rate:,.0f} queries/s, pyserini batch_search {raw_rate:,.0f}; ratio "
            f"{ours_rate / raw_rate:.2f}, medians of {repetitions}"
        )


def _pyserini(corpus: Corpus, scratch: Path, threads: int) -> Raw:
    rows, index = scratch / "rows", scratch / "index"
    rows.mkdir()
    with (rows / "passages.jsonl").open("w", encoding="utf-8") as out:
        for passage in corpus.passages:
            row = {"id": passage.id, "contents": f"{passage.title}\n{passage.text}"}
            out.write(json.dumps(row) + "\n")
    flags = ["-collection", "JsonCollection", "-input", str(rows), "-index", str(index)]
    flags += ["-generator", "DefaultLuceneDocumentGenerator", "-threads", "1", "-quiet"]
    java_class("io.anserini.index.IndexCollection").main(flags)
    # pyserini's import asks for a key of OpenAI's.
    os.environ.setdefault("OPENAI_API_KEY", "unused")
    from pyserini.search.lucene import LuceneSearcher

    searcher = LuceneSearcher(str(index))
    searcher.set_bm25(0.9, 0.4)

    def search(queries: list[str], k: int) -> object:
        names = [str(number) for number in range(len(queries))]
        return searcher.batch_search(queries, names, k=k, threads=threads)

    return search


if __name__ == "__main__":
    main()
