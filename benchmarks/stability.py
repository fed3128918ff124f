"""The laboratory: every algorithm, two regimes, several seeds, on a small transformer.

    python -m benchmarks.stability [--seeds 5] [--jobs 2] [--variants ppo so_ppo] [--out FOLDER]
    python -m benchmarks.stability --variants grpo --regimes on-policy --first-seed 3 --seeds 1

Builds the model once (runs/stability/model), then runs `train.py` with configs/laboratory.yaml once
per regime, variant and seed. Stopped and started again, it goes on where it was; runs that
stability.csv in --out knows are not run again, even if their folders are gone. Flags after `--` go
to train.py. Writes stability.csv, stability.md and figures into --out.
"""

import argparse
import sys
from pathlib import Path

import yaml

from benchmarks.laboratory import pupil, report, runs
from benchmarks.laboratory.variants import REGIMES, VARIANTS
from benchmarks.workers import ROOT
from envs.datasets import atlas

FIGURES = {
    "ppo": ["ppo", "turn_ppo", "s_ppo", "so_ppo", "so_ppo-step"],
    "rules": [
        "grpo",
        *(name for name in VARIANTS if name.startswith("so_grpo") and "sgd" not in name),
    ],
    "sgd": [name for name in VARIANTS if "sgd" in name],
    "grpo": ["grpo", "so_grpo", "gspo"],
    "strata": [name for name in VARIANTS if "stratified" in name] + ["grpo"],
    "guard": ["grpo", "grpo-guard", "grpo-lr2", "grpo-lr2-guard"],
    "relatives": ["grpo", "dr_grpo", "dapo", "sapo", "bapo", "cispo", "gigpo", "rloo"],
}


def main() -> int:
    """Run what is missing and report; 1 if runs failed."""
    parser = argparse.ArgumentParser(description="The laboratory.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--regimes", nargs="+", choices=REGIMES, default=list(REGIMES))
    parser.add_argument("--out", type=Path, default=Path("runs/stability"))
    parser.add_argument("flags", nargs="*", help="After --: flags of train.py.")
    args = parser.parse_args()
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    planned = runs.plan(args.out, args.regimes, args.variants, seeds)
    table = args.out / "stability.csv"
    known = {report.key(row) for row in report.read(table)}
    missing = [r for r in planned if (r.regime, r.variant, str(r.seed)) not in known]
    if missing:
        _model(Path("runs/stability/model"))
    failed = runs.execute(missing, args.jobs, args.flags)
    rows = report.collect(missing, table)
    if rows:
        summary = f"{report.table(rows)}\n{report.contrasts(rows)}"
        (args.out / "stability.md").write_text(summary, encoding="utf-8")
        print(summary)
        for name, variants in FIGURES.items():
            shown = [v for v in variants if any(row["variant"] == v for row in rows)]
            if shown:
                report.figure(rows, shown, args.out / f"stability-{name}.png")
    for run in failed:
        print(f"failed: {run.folder} (see {run.folder}.log)", file=sys.stderr)
    return 1 if failed else 0


def _model(folder: Path) -> None:
    if folder.exists():
        return
    config = yaml.safe_load((ROOT / runs.CONFIG).read_text(encoding="utf-8"))
    options = {key: value for key, value in config["dataset"].items() if key != "name"}
    lists = {key: tuple(value) for key, value in options.items() if isinstance(value, list)}
    # Another world than that of the runs: names are copied, facts are looked up.
    other = {"seed": 1, "people": 4000, "split": "all"}
    world = atlas.build(atlas.Config(**{**options, **lists, **other}))
    folder.parent.mkdir(parents=True, exist_ok=True)
    pupil.build(folder, world, config["prompt"]["template"])


if __name__ == "__main__":
    sys.exit(main())
