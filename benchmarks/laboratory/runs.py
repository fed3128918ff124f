"""Runs of the laboratory: one process of `train.py` each, a few at a time, resumable."""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from .variants import REGIMES, VARIANTS

ROOT = Path(__file__).parents[2]
CONFIG = "configs/laboratory.yaml"


@dataclass(frozen=True, slots=True)
class Run:
    """One cell of the experiment.

    Attributes:
        regime: A key of `REGIMES`.
        variant: A key of `VARIANTS`.
        seed: Of the run.
        folder: Its run folder.
    """

    regime: str
    variant: str
    seed: int
    folder: Path

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return (self.folder / "summary.json").exists()

    def command(self, extra: Sequence[str]) -> list[str]:
        """The command that starts it, or goes on with it."""
        if (self.folder / "config.yaml").exists():
            return [sys.executable, "train.py", "--resume", str(self.folder)]
        flags = {**REGIMES[self.regime], **VARIANTS[self.variant], "run.seed": str(self.seed)}
        return [
            *(sys.executable, "train.py", "--config", CONFIG, "--run.dir", str(self.folder)),
            *(f"--{key}={value}" for key, value in flags.items()),
            *extra,
        ]


def plan(
    out: Path, regimes: Iterable[str], variants: Iterable[str], seeds: Iterable[int]
) -> list[Run]:
    """All runs, seed by seed, so that an early stop leaves every variant with as many."""
    regimes, variants = list(regimes), list(variants)
    return [
        Run(regime, variant, seed, out / "runs" / regime / variant / f"seed-{seed}")
        for seed in seeds
        for regime in regimes
        for variant in variants
    ]


def execute(runs: Sequence[Run], jobs: int, extra: Sequence[str]) -> list[Run]:
    """Run what is not done yet.

    Args:
        runs: The experiment.
        jobs: Processes at the same time, one thread each.
        extra: Flags of train.py for every run.

    Returns:
        The runs that failed; what they said is in the file seed-N.log beside their folders.
    """
    missing = [run for run in runs if not run.done]
    failed = []
    with (
        tqdm(total=len(missing), desc="laboratory", unit="run") as bar,
        ThreadPoolExecutor(jobs) as pool,
    ):
        futures = {pool.submit(_execute, run, extra): run for run in missing}
        for future in as_completed(futures):
            if future.result() != 0:
                failed.append(futures[future])
            bar.update()
    return failed


def _execute(run: Run, extra: Sequence[str]) -> int:
    # Two processes of several threads on as many cores wait for each other most of the time.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run.folder.parent.mkdir(parents=True, exist_ok=True)
    with run.folder.with_suffix(".log").open("ab") as log:
        done = subprocess.run(
            run.command(extra),
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.returncode
