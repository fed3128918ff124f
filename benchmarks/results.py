"""The table of docs/results.md: methods x data sets for one model, each cell an evaluation.

    python -m benchmarks.results --trained runs/nq_hotpotqa [--questions 200] [--out results/table]

Each cell is `eval.py` with the flags it prints, in a folder of its own under --out. Stopped and
started again, it goes on where it was. Without the sample data it plays the generated worlds.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from agents import eval_command
from retrieval import build_index

# Name of a set -> its file and its corpus below --data.
SETS = {
    "nq": ("nq/nq_open_with_corpus.jsonl", "wiki/wiki_corpus.jsonl.gz"),
    "hotpotqa": ("hotpotqa/hotpotqa_with_corpus.jsonl", "wiki/wiki_corpus.jsonl.gz"),
    "2wikimultihopqa": ("2wikimultihopqa/2wiki_with_corpus.jsonl", "wiki/wiki_corpus.jsonl.gz"),
    "musique": ("musique/musique_with_corpus.jsonl", "wiki/wiki_corpus.jsonl.gz"),
    "medqa": ("medqa/medqa_us_test_4opt.jsonl", "medical/medical_corpus.jsonl.gz"),
    "medmcqa": ("medmcqa/medmcqa_dev.jsonl", "medical/medical_corpus.jsonl.gz"),
    "pubmedqa": ("pubmedqa/pubmedqa_test.jsonl", "medical/medical_corpus.jsonl.gz"),
    "bioasq": ("bioasq/bioasq_yesno.jsonl", "medical/medical_corpus.jsonl.gz"),
}
WORLDS = ("atlas", "formulary")
# Sets whose rows name no evidence: there is no ceiling to read.
NO_EVIDENCE = {"medqa", "medmcqa"}
# Row of the table -> the flags of eval.py; {trained} is --trained.
METHODS = {
    "direct": ["--method.name", "direct"],
    "cot": ["--method.name", "cot"],
    "rag": ["--method.name", "rag"],
    "ircot": ["--method.name", "ircot"],
    "search_o1": ["--method.name", "search_o1"],
    "search_r1, zero-shot": ["--method.name", "search_r1"],
    "research, zero-shot": ["--method.name", "research"],
    "r1, zero-shot": ["--method.name", "r1"],
    "search_r1, trained": ["--method.name", "search_r1", "--agent", "{trained}"],
    "oracle": ["--method.name", "oracle"],
    "scripted": ["--method.name", "scripted"],
}
# What fits a 135M model on two cores: short turns, two passages, two searches and an answer.
COMMON = [
    *("--model.dtype", "auto", "--engine.max_tokens", "64", "--engine.max_episodes", "64"),
    *("--env.top_k", "2", "--env.max_turns", "3", "--env.max_observation_tokens", "256"),
    *("--env.max_context_tokens", "1400"),
]


@dataclass(frozen=True, slots=True)
class Cell:
    """One evaluation.

    Attributes:
        method: A key of `METHODS`.
        dataset: A key of `SETS`, or one of `WORLDS`.
        folder: Of its results.
        flags: Of eval.py.
    """

    method: str
    dataset: str
    folder: Path
    flags: list[str]


def main() -> int:
    """Play what is missing, and print the table; 1 if a cell failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Formatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--trained", default=None, help="A run folder; without it no trained row.")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--sets", nargs="+", choices=[*SETS, *WORLDS], default=None)
    parser.add_argument("--out", type=Path, default=Path("results/table"))
    args = parser.parse_args()
    if args.sets is None:
        args.sets = list(SETS) if args.data.is_dir() else list(WORLDS)
        if not args.data.is_dir():
            print(f"{args.data} is absent: the generated worlds are played", file=sys.stderr)
    cells = list(plan(args))
    failed = [cell for cell in tqdm(cells, desc="cells", unit="cell") if not _play(cell)]
    table = tabulate(cells)
    (args.out / "table.md").write_text(table, encoding="utf-8")
    print(table)
    for cell in failed:
        print(f"failed: eval.py {' '.join(cell.flags)}", file=sys.stderr)
    return 1 if failed else 0


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    pass


def plan(args: argparse.Namespace) -> Iterator[Cell]:
    """The cells, set by set."""
    for name in args.sets:
        for method in args.methods:
            flags = [flag.format(trained=args.trained) for flag in METHODS[method]]
            if args.trained is None and "None" in flags:
                continue
            if method == "oracle":
                if name in NO_EVIDENCE:
                    continue
                flags += ["--with_evidence", "true"]
            folder = args.out / name / method.replace(", ", "-")
            asked = [*_questions(args, name, method), *COMMON]
            asked += ["--dataset.limit", str(args.questions)]
            yield Cell(method, name, folder, [*flags, *asked, "--out", str(folder)])


def _questions(args: argparse.Namespace, name: str, method: str) -> list[str]:
    if name in WORLDS:
        return ["--dataset.name", name, "--dataset.split", "test", "--retriever.name", "bm25s"]
    file, corpus = SETS[name]
    # The index is opened in no time; the ceiling reads the corpus itself.
    engine = ["--retriever.name", "index", "--retriever.path", str(_index(args, corpus))]
    if method == "oracle":
        engine = ["--retriever.name", "empty", "--retriever.corpus", str(args.data / corpus)]
    # The same questions in every row, whichever order the file has.
    chosen = ["--dataset.path", str(args.data / file), "--dataset.subset_seed", "0"]
    return ["--dataset.name", name, *chosen, *engine]


def _index(args: argparse.Namespace, corpus: str) -> Path:
    """The index folder of a corpus, built when it is first asked for."""
    folder: Path = args.out / "indexes" / Path(corpus).parent.name
    if not folder.exists():
        flags = ["--corpus", str(args.data / corpus), "--retriever", "bm25s", "--out", str(folder)]
        if build_index.main(flags):
            raise SystemExit(2)
    return folder


def _play(cell: Cell) -> bool:
    """Whether the cell has its result."""
    return (cell.folder / "summary.json").exists() or eval_command.main(cell.flags) == 0


def tabulate(cells: list[Cell]) -> str:
    """The headline metric with its interval, method by set, in Markdown."""
    sets = list(dict.fromkeys(cell.dataset for cell in cells))
    known = {(cell.method, cell.dataset): _score(cell) for cell in cells}
    lines = [f"| method | {' | '.join(sets)} |", "|---" * (len(sets) + 1) + "|"]
    for method in dict.fromkeys(cell.method for cell in cells):
        row = [known.get((method, name), "-") for name in sets]
        lines.append(f"| {method} | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _score(cell: Cell) -> str:
    file = cell.folder / "summary.json"
    if not file.exists():
        return "?"
    summary = json.loads(file.read_text(encoding="utf-8"))
    score = summary.get("accuracy") or summary.get("em")
    if score is None:
        return "failed"
    return f"{score['mean']:.3f} [{score['low']:.3f}, {score['high']:.3f}]"


if __name__ == "__main__":
    sys.exit(main())
