"""Runs of the laboratory: `train.py` with its flags, in a few worker processes, resumable."""

import multiprocessing
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from agents import train_command

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

    def flags(self, extra: Sequence[str]) -> list[str]:
        """What `train.py` is given to start it, or to go on with it."""
        if (self.folder / "config.yaml").exists():
            return ["--resume", str(self.folder)]
        flags = {**REGIMES[self.regime], **VARIANTS[self.variant].flags, "run.seed": str(self.seed)}
        return [
            *("--config", CONFIG, "--run.dir", str(self.folder)),
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
        if regime != "on-policy" or not VARIANTS[variant].needs_clip
    ]


def execute(runs: Sequence[Run], jobs: int, extra: Sequence[str]) -> list[Run]:
    """Run what is not done yet.

    Args:
        runs: The experiment.
        jobs: Worker processes, one thread each. A worker starts once, since importing takes as
            long as several steps; a run depends on nothing that an earlier one left behind.
        extra: Flags of train.py for every run.

    Returns:
        The runs that failed; what they said is in the file seed-N.log beside their folders.
    """
    missing = [run for run in runs if not run.done]
    failed = []
    # Two processes of several threads on as many cores wait for each other most of the time.
    os.environ["OMP_NUM_THREADS"] = "1"
    spawn = multiprocessing.get_context("spawn")
    with (
        tqdm(total=len(missing), desc="laboratory", unit="run") as bar,
        ProcessPoolExecutor(jobs, mp_context=spawn) as pool,
    ):
        futures = {pool.submit(_execute, run, extra): run for run in missing}
        for future in as_completed(futures):
            if future.result() != 0:
                failed.append(futures[future])
            bar.update()
    return failed


def _execute(run: Run, extra: Sequence[str]) -> int:
    """One run, in a worker: its exit status."""
    os.chdir(ROOT)
    run.folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        run.folder.with_suffix(".log").open("a", encoding="utf-8") as log,
        redirect_stdout(log),
        redirect_stderr(log),
    ):
        return train_command.main(run.flags(extra))
