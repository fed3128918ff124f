"""Search engines side by side: build time, size, memory, speed, and gold passages found.

    python -m benchmarks.retrieval --corpus ../shared/data/wiki/wiki_corpus.jsonl.gz \
        --questions ../shared/data/nq/nq_open_with_corpus.jsonl --engines bm25s rank_bm25 lucene
    python -m benchmarks.retrieval --corpus atlas:1000000 --engines bm25s lucene

A corpus is a file, or `atlas:N`: a generated world of about N passages, asked its own 1-hop
questions. With `--part N` only N passages are searched, those that answer the questions among them
(encoding a whole corpus takes long on two cores). An engine is a name, with options after a colon
(`dense:type=ivf_sq8`). Every build and every search runs in a process of its own, one after the
other; memory is that process's peak. Prints a Markdown table.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks import retrieval_search
from envs.datasets import atlas
from retrieval.corpus import stream_corpus
from retrieval.estimate import MEASURE
from retrieval.index import ENGINE, folder_bytes
from retrieval.store import PASSAGES, write_store

ROOT = Path(__file__).parents[1]
PASSAGES_PER_PERSON = 4.9
COLUMNS = (
    *("engine", "build s", "build MiB", "index MB", "open s", "search MiB"),
    *("q/s, 64 at once", "q/s, one by one", "p50 ms", "p99 ms", "gold@3", "gold@10"),
)


@dataclass(frozen=True, slots=True)
class Side:
    """One engine of the comparison.

    Attributes:
        label: As it was given.
        name: Its name.
        flags: Of `retrieval.build_index`.
    """

    label: str
    name: str
    flags: tuple[str, ...]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", required=True, help="A corpus file, or atlas:N.")
    parser.add_argument("--questions", type=Path, nargs="*", default=[], help="Question files.")
    parser.add_argument("--engines", nargs="+", required=True, help="NAME or NAME:key=value,...")
    parser.add_argument("--queries", type=int, default=500, help="Questions that are asked.")
    parser.add_argument("--part", type=int, help="Search this many passages of the corpus only.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="Keep the indexes here, and use those there.")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="retrieval-") as scratch:
        folder = args.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        corpus, answerable = _inputs(args.corpus, args.questions, Path(scratch))
        asked = random.Random(0).sample(answerable, min(args.queries, len(answerable)))
        if args.part:
            corpus = _part(corpus, asked, args.part, Path(scratch))
        queries = Path(scratch) / "queries.json"
        queries.write_text(json.dumps(asked), encoding="utf-8")
        print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
        for side in tqdm([_side(text) for text in args.engines], desc="engines", unit="engine"):
            built = _build(side, corpus, folder / re.sub(r"\W+", "-", side.label).strip("-"))
            found = _search(built["folder"], queries, args.repeats)
            print(_row(side, built, found), flush=True)


def _side(text: str) -> Side:
    name, _, options = text.partition(":")
    # A value may hold commas of its own, such as a list of engines.
    pairs = [option.partition("=") for option in re.split(r",(?=\w+=)", options) if option]
    return Side(text, name, tuple(f"--index.{key}={value}" for key, _, value in pairs))


def _inputs(corpus: str, questions: list[Path], scratch: Path) -> tuple[Path, list[dict[str, Any]]]:
    """The corpus file, and questions with the ids of their gold passages."""
    if not corpus.startswith("atlas:"):
        rows = [json.loads(line) for file in questions for line in file.open(encoding="utf-8")]
        asked = [
            {"query": row["question"], "gold": row["meta"]["gold_ids"]}
            for row in rows
            if row["meta"].get("gold_ids")
        ]
        return Path(corpus), asked
    people = max(20, round(int(corpus.removeprefix("atlas:")) / PASSAGES_PER_PERSON))
    world = atlas.build(atlas.Config(people=people, hops=(1,), limit=5000, split="all"))
    write_store(world.passages or (), scratch)
    ids = {passage.title: passage.id for passage in world.passages or ()}
    asked = [{"query": q.text, "gold": [ids[q.supporting_titles[0]]]} for q in world.questions]
    return scratch / PASSAGES, asked


def _part(corpus: Path, asked: list[dict[str, Any]], size: int, scratch: Path) -> Path:
    """The gold passages of what is asked and others drawn with seed 0, in their order."""
    gold = {identifier for question in asked for identifier in question["gold"]}
    ids = [passage.id for _, passage in stream_corpus(corpus) if passage.id not in gold]
    chosen = gold.union(random.Random(0).sample(ids, min(len(ids), max(0, size - len(gold)))))
    folder = scratch / "part"
    folder.mkdir()
    write_store((p for _, p in stream_corpus(corpus) if p.id in chosen), folder)
    return folder / PASSAGES


def _build(side: Side, corpus: Path, folder: Path) -> dict[str, Any]:
    """Seconds and peak memory of the build; NaN where the index was there already."""
    seconds = memory = float("nan")
    if not folder.exists():
        command = [
            *(sys.executable, "-m", "retrieval.build_index", "--corpus", str(corpus)),
            *("--retriever", side.name, "--out", str(folder), *side.flags),
        ]
        seconds, memory = _run(command)
    size = folder_bytes(folder / ENGINE)
    return {"folder": folder, "seconds": seconds, "mib": memory, "bytes": size}


def _search(folder: Path, queries: Path, repeats: int) -> dict[str, Any]:
    result = folder.parent / f"{folder.name}.json"
    command = [
        *(sys.executable, "-m", retrieval_search.__name__, str(folder), str(queries), str(result)),
        str(repeats),
    ]
    _, memory = _run(command)
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return found | {"mib": memory}


def _run(command: list[str]) -> tuple[float, float]:
    """(seconds, peak MiB) of a process; its end is this one's if it fails."""
    began = time.monotonic()
    measured = [sys.executable, "-c", MEASURE, *command]
    done = subprocess.run(measured, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {done.returncode}")
    return time.monotonic() - began, int(done.stdout) / 1024


def _row(side: Side, built: dict[str, Any], found: dict[str, Any]) -> str:
    cells = [
        *(f"`{side.label}`", f"{built['seconds']:.1f}", f"{built['mib']:,.0f}"),
        *(f"{built['bytes'] / 1e6:,.1f}", f"{found['open_s']:.1f}", f"{found['mib']:,.0f}"),
        *(f"{found['batch_qps']:,.0f}", f"{found['single_qps']:,.0f}"),
        *(f"{found['p50_ms']:.2f}", f"{found['p99_ms']:.2f}"),
        *(f"{found['gold@3']:.3f}", f"{found['gold@10']:.3f}"),
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
