"""Queries per second of one index: in process, through `retrieval.serve`, through a plain server.

    python -m benchmarks.serve --index indexes/wiki-dense

Over HTTP, `--clients` threads with a connection each send Search-R1 requests of one query and wait
for the answer. All sides run in turn within every repetition, on the same queries (titles of
passages, or the lines of `--queries`), and their answers are compared first. Every process holds
the index: memory for four copies of what is not mapped from disk. Prints medians over repetitions.
"""

import argparse
import http.client
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tqdm import tqdm

from retrieval.corpus import Corpus
from retrieval.index import open_index
from retrieval.server.dialects import contents
from retrieval.types import Retriever

ROOT = Path(__file__).parents[1]
START_S = 900
BATCH = 32
PROCESS, BATCHED, OURS = "in process, one by one", f"in process, batches of {BATCH}", "serve"
SERVERS = {
    OURS: ["retrieval.serve", "--port", "0"],
    "plain, async": ["benchmarks.plain_server", "--shape", "async"],
    "plain, threads": ["benchmarks.plain_server", "--shape", "threads"],
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One side in one repetition.

    Attributes:
        rate: Queries per second.
        p50_ms: Median time of a request.
        p99_ms: 99 of 100 requests took no longer.
    """

    rate: float
    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float], queries: int, elapsed: float) -> "Measured":
        """From the seconds of every request and of all together."""
        ordered = sorted(seconds)
        p50, p99 = (1000 * ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99))
        return cls(queries / elapsed, p50, p99)


class Client:
    """One connection to a server."""

    def __init__(self, url: str, k: int) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=300)
        self._k = k

    def search(self, queries: Sequence[str]) -> Any:
        """The answer of /retrieve, as it is sent."""
        body = json.dumps({"queries": list(queries), "topk": self._k, "return_scores": True})
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", "/retrieve", body.encode(), headers)
        response = self._connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(f"status {response.status}: {content[:200]!r}")
        return content


@contextmanager
def running(module: Sequence[str], index: Path) -> Iterator[str]:
    """The URL of a server over the index."""
    command = [sys.executable, "-m", *module, "--index", str(index)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    timer = threading.Timer(START_S, process.kill)
    timer.start()
    try:
        assert process.stdout
        line = process.stdout.readline()
        timer.cancel()
        if not line:
            raise RuntimeError(f"{module[0]} did not start")
        yield line.split()[0]
    finally:
        timer.cancel()
        process.kill()
        process.wait()


def over_http(url: str, queries: Sequence[str], k: int, clients: int) -> Measured:
    """All queries through `clients` connections at once, each taking the next one."""
    left, lock = iter(queries), threading.Lock()
    seconds: list[float] = []
    failures: list[BaseException] = []
    start = threading.Barrier(clients + 1)

    def work() -> None:
        client = Client(url, k)
        client.search(queries[:1])  # the connection is open before the clock runs
        start.wait()
        while True:
            with lock:
                query = next(left, None)
            if query is None:
                return
            began = time.perf_counter()
            try:
                client.search([query])
            except BaseException as error:
                failures.append(error)
                return
            seconds.append(time.perf_counter() - began)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - began
    if failures:
        raise failures[0]
    return Measured.of(seconds, len(queries), elapsed)


def in_process(retriever: Retriever, queries: Sequence[str], k: int, batch: int) -> Measured:
    """All queries by one caller, `batch` at a time."""
    seconds = []
    began = time.perf_counter()
    for start in range(0, len(queries), batch):
        one = time.perf_counter()
        retriever.search(queries[start : start + batch], k)
        seconds.append(time.perf_counter() - one)
    return Measured.of(seconds, len(queries), time.perf_counter() - began)


def choose_queries(corpus: Corpus, file: str | None, count: int) -> list[str]:
    """The first lines of the file, or titles of passages drawn with seed 0; repeated if too few."""
    if file is not None:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    else:
        places = random.Random(0).sample(
            range(len(corpus.passages)), min(count, len(corpus.passages))
        )
        lines = [corpus.passages[place].title or corpus.passages[place].text for place in places]
    found = [line for line in lines if line.strip()]
    return [found[place % len(found)] for place in range(count)]


def check(retriever: Retriever, urls: dict[str, str], queries: Sequence[str], k: int) -> None:
    """All sides find the same passages, scores rounded: a batch may sum in another order."""
    expected = [
        [(contents(hit.passage), round(hit.score, 4)) for hit in hits]
        for hits in retriever.search(queries, k)
    ]
    for side, url in urls.items():
        answer = json.loads(Client(url, k).search(queries))["result"]
        found = [
            [(h["document"]["contents"], round(h["score"], 4)) for h in hits] for hits in answer
        ]
        if found != expected:
            raise RuntimeError(f"{side} answers otherwise than in process")


def report(measured: dict[str, list[Measured]]) -> str:
    """A line a side: medians, the range of the rate, and the rate relative to the first side."""
    lines = [f"{'':28}{'queries/s':>11}{'(range)':>18}{'p50 ms':>9}{'p99 ms':>9}{'relative':>10}"]
    base = statistics.median(one.rate for one in measured[PROCESS])
    for side, runs in measured.items():
        rates = [one.rate for one in runs]
        rate = statistics.median(rates)
        p50, p99 = (statistics.median(getattr(r, n) for r in runs) for n in ("p50_ms", "p99_ms"))
        spread = f"({min(rates):.0f} to {max(rates):.0f})"
        lines.append(f"{side:28}{rate:11.1f}{spread:>18}{p50:9.2f}{p99:9.2f}{rate / base:10.2f}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", required=True, help="index folder")
    parser.add_argument("--queries", help="file with a query a line")
    parser.add_argument("--count", type=int, default=1000, help="queries per repetition and side")
    parser.add_argument("--k", type=int, default=3, help="passages per query")
    parser.add_argument("--clients", type=int, default=32, help="connections at once")
    parser.add_argument("--repetitions", type=int, default=5, help="repetitions; odd")
    args = parser.parse_args(argv)
    opened = open_index(Path(args.index))
    queries = choose_queries(opened.corpus, args.queries, args.count)
    with ExitStack() as stack:
        urls = {
            side: stack.enter_context(running(module, Path(args.index)))
            for side, module in SERVERS.items()
        }
        check(opened.retriever, urls, queries[:BATCH], args.k)
        sides: dict[str, Callable[[], Measured]] = {
            PROCESS: lambda: in_process(opened.retriever, queries, args.k, 1),
            BATCHED: lambda: in_process(opened.retriever, queries, args.k, BATCH),
        }
        for side, url in urls.items():
            sides[side] = lambda url=url: over_http(url, queries, args.k, args.clients)
        measured: dict[str, list[Measured]] = {side: [] for side in sides}
        bar = tqdm(total=args.repetitions * len(sides), desc="serve", leave=False)
        for _ in range(args.repetitions):
            for side, measure in sides.items():
                measured[side].append(measure())
                bar.update()
        bar.close()
    engine, passages = opened.manifest["retriever"], len(opened.corpus.passages)
    print(
        f"{args.index}: {engine}, {passages:,} passages; k = {args.k}, {args.clients} clients, "
        f"{args.count} queries, medians of {args.repetitions} repetitions"
    )
    print(report(measured))


if __name__ == "__main__":
    main()
