"""Sides that are compared run in processes of their own: each has its own peak of memory."""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from agents.metrics import write_json

GB = 1e9


@dataclass(frozen=True, slots=True)
class Measured:
    """What a side's process found.

    Attributes:
        seconds: Of each step, warm-up left out.
        peak_bytes: The most resident memory of its steps, weights and libraries included.
        loaded_bytes: Resident memory before the first step.
        told: What else it has to say; JSON.
    """

    seconds: Sequence[float]
    peak_bytes: int
    loaded_bytes: int
    told: Mapping[str, Any]

    @property
    def median(self) -> float:
        """Seconds of a step."""
        return statistics.median(self.seconds)

    def plain(self) -> dict[str, Any]:
        """As JSON, the median included."""
        return asdict(self) | {"median_seconds": self.median}


def run_apart(argv: Sequence[str], side: str, folder: Path) -> Measured:
    """Run one side of a command in another process, whose progress is shown.

    Args:
        argv: The command's own arguments.
        side: Which one.
        folder: Where its result goes, as SIDE.json.

    Raises:
        SystemExit: It failed, and has said why.
    """
    file = folder / f"{side}.json"
    command = [sys.executable, "-m", "benchmarks.training", *argv, "--side", side]
    done = subprocess.run([*command, "--out", str(file)], check=False, stdout=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(done.returncode)
    told = json.loads(file.read_text(encoding="utf-8"))
    del told["median_seconds"]
    return Measured(**told)


def run_both(argv: Sequence[str], sides: Sequence[str], folder: Path) -> dict[str, Measured]:
    """Run sides one after the other."""
    return {side: run_apart(argv, side, folder) for side in sides}


def add_side(parser: argparse.ArgumentParser, sides: Sequence[str]) -> None:
    """The flag with which `run_apart` asks for a side."""
    parser.add_argument("--side", choices=sides, help=argparse.SUPPRESS)


def setting() -> dict[str, Any]:
    """What numbers depend on besides the command."""
    return {"torch": torch.__version__, "threads": torch.get_num_threads()}


def save(out: Path | None, content: Mapping[str, Any]) -> None:
    """Write results to the file that was asked for, if one was."""
    if out is not None:
        write_json(out, content)


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for what sides hand over."""
    return tempfile.TemporaryDirectory(prefix="benchmarks-training-")


def against(name: str, ratio: float, target: float, least: bool) -> str:
    """A line of a ratio beside its target: at least, or at most, that much."""
    met = ratio >= target if least else ratio <= target
    sign = ">=" if least else "<="
    return f"{name:>24} {ratio:6.2f}   target {sign} {target:g}: {'met' if met else 'missed'}"
