"""One index, searched: what `benchmarks.retrieval` runs in a process of its own.

python -m benchmarks.retrieval_search INDEX QUERIES.json RESULT.json REPEATS
"""

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from retrieval.index import open_index
from retrieval.types import Retriever

BATCH, K = 64, 10


def main() -> None:
    """Open, warm up, measure, write."""
    index, queries, result = (Path(text) for text in sys.argv[1:4])
    repeats = int(sys.argv[4])
    asked = json.loads(queries.read_text(encoding="utf-8"))
    began = time.perf_counter()
    retriever = open_index(index).retriever
    texts = [question["query"] for question in asked]
    retriever.search(texts[:BATCH], K)
    found: dict[str, Any] = {"open_s": time.perf_counter() - began}
    batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    rates, singles = [], []
    for _ in range(repeats):
        rates.append(len(texts) / sum(_seconds(retriever, batch) for batch in batches))
        singles.append([_seconds(retriever, [text]) for text in texts])
    found["batch_qps"] = statistics.median(rates)
    found["single_qps"] = statistics.median(len(texts) / sum(times) for times in singles)
    for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99)):
        ranked = [sorted(times)[int(share * (len(times) - 1))] for times in singles]
        found[name] = 1000 * statistics.median(ranked)
    answers = retriever.search(texts, K)
    for k in (3, K):
        hits = [
            any(hit.passage.id in question["gold"] for hit in answer[:k])
            for question, answer in zip(asked, answers, strict=True)
        ]
        found[f"gold@{k}"] = statistics.mean(hits)
    result.write_text(json.dumps(found), encoding="utf-8")


def _seconds(retriever: Retriever, queries: list[str]) -> float:
    began = time.perf_counter()
    retriever.search(queries, K)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
