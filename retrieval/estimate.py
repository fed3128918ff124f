"""What building an index will need, measured on samples of the corpus.

Two samples of different size are built, each in a process of its own; memory, disk and time grow
with the number of passages along the line through both. Engines whose cost is no line say so
themselves: a module may define `estimate(config, corpus, passages) -> Needs`.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from . import plugins
from .control_group import control_group_free
from .corpus import stream_corpus
from .errors import InputError
from .index import PACKAGE, folder_bytes
from .store import PASSAGES, write_store

SAMPLES = (1000, 4000)
GB = 1e9
_ROOT = Path(__file__).parents[1]
# The kernel counts the memory of whoever starts a process as that process's too: a small one must.
MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a build takes.

    Attributes:
        passages: In the corpus.
        memory_bytes: Peak resident memory of the build.
        disk_bytes: The most that the index folder takes, while it is built or when it is done.
        seconds: On this machine, as busy as it is now.
        note: How this was found out.
    """

    passages: int
    memory_bytes: float
    disk_bytes: float
    seconds: float
    note: str

    def fits(self, out: Path) -> bool:
        """Whether this machine has the memory, and the disk of `out` the room."""
        return self.memory_bytes <= memory_free() and self.disk_bytes <= disk_free(out)

    def require(self, out: Path, already: float = 0.0) -> None:
        """Refuse a build that this machine cannot hold.

        Args:
            out: Where it goes.
            already: Bytes of disk that an earlier part of it holds there.

        Raises:
            InputError: Not enough memory, or not enough room on the disk.
        """
        memory, disk = memory_free(), disk_free(out) + already
        for what, needed, free in (
            ("memory", self.memory_bytes, memory),
            ("disk", self.disk_bytes, disk),
        ):
            if needed > free:
                raise InputError(
                    f"this index needs {needed / GB:,.2f} GB of {what} and {free / GB:,.2f} GB are "
                    f"free ({self.note}); choose a smaller type, or a larger machine"
                )

    def report(self, out: Path) -> str:
        """The estimate in words, one line a resource."""
        memory, disk = memory_free(), disk_free(out)
        return "\n".join(
            [
                f"passages  {self.passages:,}",
                f"memory    {self.memory_bytes / GB:,.2f} GB of {memory / GB:,.2f} GB free: "
                f"{_verdict(self.memory_bytes <= memory)}",
                f"disk      {self.disk_bytes / GB:,.2f} GB of {disk / GB:,.2f} GB free: "
                f"{_verdict(self.disk_bytes <= disk)}",
                f"time      about {_duration(self.seconds)}",
                f"({self.note})",
            ]
        )


def estimate(corpus: Path, name: str, config: Any) -> Needs:
    """Estimate a build.

    Raises:
        InputError: The corpus or the settings are wrong.
    """
    module = plugins.load(PACKAGE, name)
    passages = sum(1 for _ in stream_corpus(corpus))
    if not passages:
        raise InputError(f"{corpus}: no passages; the file is empty")
    if hasattr(module, "estimate"):
        needs: Needs = module.estimate(config, corpus, passages)
        return needs
    return measured(corpus, name, config, passages)


def measured(corpus: Path, name: str, config: Any, passages: int) -> Needs:
    """Estimate a build by building two samples of the corpus.

    Raises:
        InputError: A sample cannot be built.
    """
    sizes = sorted({min(size, passages) for size in SAMPLES})
    found = [_sample(corpus, name, config, size, passages) for size in sizes]
    memory, disk, seconds = (
        _extrapolate(sizes, [sample[place] for sample in found], passages) for place in range(3)
    )
    note = f"measured on {' and '.join(f'{size:,}' for size in sizes)} passages"
    return Needs(passages, memory, disk, seconds, note)


def memory_free() -> int:
    """Memory a new process can have, in bytes: what the kernel calls available, or less.

    A control group may have less left. Where there is no /proc, all of the machine's memory.
    """
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with meminfo.open(encoding="ascii") as lines:
        fields = dict(line.split(":", 1) for line in lines)
    available = int(fields["MemAvailable"].split()[0]) * 1024
    left = control_group_free()
    return available if left is None else min(available, left)


def peak_memory() -> int:
    """The most memory that this process has had resident, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def disk_free(folder: Path) -> int:
    """Bytes free where a folder is, or would be made."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _sample(
    corpus: Path, name: str, config: Any, size: int, passages: int
) -> tuple[float, float, float]:
    """(memory, disk, seconds) of building `size` of the passages."""
    with tempfile.TemporaryDirectory(prefix="estimate-") as scratch:
        folder = Path(scratch)
        # Spread over the file: its beginning may be unlike the rest.
        spread = islice(stream_corpus(corpus, False), 0, None, passages // size)
        write_store((passage for _, passage in islice(spread, size)), folder)
        command = [
            *(sys.executable, "-m", "retrieval.build_index", "--retriever", name),
            *("--corpus", str(folder / PASSAGES), "--out", str(folder / "index"), *_flags(config)),
        ]
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, *command],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        seconds = time.monotonic() - began
        if done.returncode:
            said = done.stderr.strip().rpartition("\n")[2]
            raise InputError(f"a build of {size:,} passages failed: {said[:500]}")
        return int(done.stdout) * 1024, folder_bytes(folder / "index"), seconds


def _flags(config: Any) -> list[str]:
    return [
        f"--index.{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in asdict(config).items()
    ]


def _extrapolate(sizes: list[int], values: list[float], passages: int) -> float:
    """The line through one or two points, never below the last of them."""
    if len(sizes) == 1 or passages <= sizes[-1]:
        return values[-1]
    slope = max(0.0, (values[1] - values[0]) / (sizes[1] - sizes[0]))
    return values[1] + slope * (passages - sizes[1])


def _verdict(fits: bool) -> str:
    return "fits" if fits else "DOES NOT FIT"


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.0f} s"
