"""Runs of the laboratory: `train.py` with its flags, in a few worker processes, resumable."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agents import train_command
from benchmarks.workers import Job
from benchmarks.workers import execute as execute_jobs

from .variants import REGIMES, VARIANTS

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


def execute(runs: Sequence[Run], workers: int, extra: Sequence[str]) -> list[Run]:
    """Run what is not done yet.

    Args:
        runs: The experiment.
        workers: Processes, one thread each.
        extra: Flags of train.py for every run.

    Returns:
        The runs that failed; what they said is in the file seed-N.log beside their folders.
    """
    missing = [run for run in runs if not run.done]
    jobs = [
        Job(train_command.main, run.flags(extra), run.folder.with_suffix(".log")) for run in missing
    ]
    ended = execute_jobs(jobs, workers, "laboratory", "run")
    return [missing[index] for index, status in ended if status]
