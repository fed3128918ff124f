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

    @property
    def beyond_bytes(self) -> int:
        """The peak less what was loaded."""
        return max(self.peak_bytes - self.loaded_bytes, 1)

    def line(self) -> str:
        """Seconds and memory on a line."""
        return (
            f"median {self.median:.2f} s (min {min(self.seconds):.2f}, max "
            f"{max(self.seconds):.2f}), peak {self.peak_bytes / GB:.2f} GB "
            f"(loaded {self.loaded_bytes / GB:.2f})"
        )

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


def memory_ratios(ours: Measured, theirs: Measured) -> dict[str, float]:
    """Ours over theirs: of the peaks, and of what they are beyond what was loaded."""
    return {
        "memory": ours.peak_bytes / theirs.peak_bytes,
        "memory_beyond_loaded": ours.beyond_bytes / theirs.beyond_bytes,
    }


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


def against(name: str, ratio: float, target: str = "") -> str:
    """A line of a ratio, beside its target (">= 3", "<= 0.6") if it has one."""
    line = f"{name:>24} {ratio:6.2f}"
    if not target:
        return line
    sign, bound = target.split()
    met = ratio >= float(bound) if sign == ">=" else ratio <= float(bound)
    return f"{line}   target {target}: {'met' if met else 'missed'}"
