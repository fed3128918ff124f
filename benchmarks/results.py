"""The table of docs/results.md: methods x data sets for one model, each cell an evaluation.

    python -m benchmarks.results [--trained RUN] [--sft RUN] [--rejection RUN] [--questions 200]

@@
"""

import argparse
import sys
from pathlib import Path

from agents import eval_command
from benchmarks import results_cells as cells
from benchmarks.workers import Job, execute
from retrieval import build_index


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    pass


def main() -> int:
    """Play what is missing, and print the table; 1 if a cell failed."""
    args = _arguments()
    runs = {name: getattr(args, name) for name in ("trained", "sft", "rejection")}
    known_runs = {name: run for name, run in runs.items() if run is not None}
    plan = cells.Plan(args.data, args.out, args.questions, known_runs)
    planned = list(plan.cells(args.methods, _sets(args)))
    rows = {cells.key_of(row): row for row in cells.read(args.csv)}
    missing = [cell for cell in planned if cell.key not in rows]
    _build_indexes(plan, missing)
    jobs = [
        Job(
            eval_command.main,
            [*cell.flags, "--out", str(cell.folder)],
            cell.folder.with_name(f"{cell.folder.name}.log"),
        )
        for cell in missing
        if cell.row() is None
    ]
    for _ in execute(jobs, args.jobs, "cells", "cell"):
        _remember(args.csv, rows, missing)
    _remember(args.csv, rows, missing)
    print(f"{cells.table(rows.values())}\n{cells.effects(rows.values())}")
    failed = [cell for cell in missing if cell.key not in rows]
    for cell in failed:
        print(f"failed: {cell.folder} (see {cell.folder}.log)", file=sys.stderr)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Formatter)
    rows = [*cells.METHODS, *cells.OPTIONS]
    sets = [*cells.SETS, *cells.WORLDS]
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--trained", help="Run of configs/nq_hotpotqa.yaml.")
    parser.add_argument("--sft", help="The same with --env.max_turns 1 --run.steps 0.")
    parser.add_argument("--rejection", help="The same with --algorithm.name rejection_sampling.")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--methods", nargs="+", metavar="ROW", choices=rows, default=rows)
    parser.add_argument("--sets", nargs="+", metavar="SET", choices=sets)
    parser.add_argument("--jobs", type=int, default=2, help="Worker processes, one thread each.")
    parser.add_argument("--out", type=Path, default=Path("results/table"))
    parser.add_argument("--csv", type=Path, default=Path("docs/results/cells.csv"))
    return parser.parse_args()


def _sets(args: argparse.Namespace) -> list[str]:
    if args.sets is not None:
        return list(args.sets)
    if args.data.is_dir():
        return list(cells.SETS)
    print(f"{args.data} is absent: the generated worlds are played", file=sys.stderr)
    return list(cells.WORLDS)


def _build_indexes(plan: cells.Plan, missing: list[cells.Cell]) -> None:
    """The indexes of the corpora, before two workers ask for the same one."""
    for corpus in {cells.SETS[cell.dataset][1] for cell in missing if cell.dataset in cells.SETS}:
        folder = plan.index(corpus)
        if not folder.exists():
            flags = ["--corpus", str(plan.data / corpus), "--retriever", "bm25s"]
            if build_index.main([*flags, "--out", str(folder)]):
                raise SystemExit(2)


def _remember(file: Path, rows: dict[cells.Key, cells.Row], played: list[cells.Cell]) -> None:
    rows.update({cell.key: row for cell in played if (row := cell.row()) is not None})
    cells.write(file, rows.values())


if __name__ == "__main__":
    sys.exit(main())
