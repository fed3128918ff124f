"""Progress of long work: a bar on a terminal, now and then a plain line elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from . import processes

# Between two lines where there is no terminal: a log is read later, and should be short.
LINE_S = 30.0


@contextmanager
def progress_bar(total: int, name: str, unit: str, done: int = 0) -> Iterator[Any]:
    """A bar that goes when it is done; its `update` takes a count. Process 0 alone shows it.

    Args:
        total: Of units.
        name: Of the work.
        unit: Of what, in the singular.
        done: Units done before.
    """
    first = processes.rank() == 0
    if first and not sys.stderr.isatty():
        yield _Lines(total, name, unit, done)
        return
    options: dict[str, Any] = {"dynamic_ncols": True, "leave": False, "initial": done}
    with tqdm(total=total, desc=name, unit=unit, disable=not first, **options) as bar:
        yield bar


class _Lines:
    """What a bar shows, as lines without control characters, at most one every `LINE_S` seconds."""

    def __init__(self, total: int, name: str, unit: str, done: int) -> None:
        self._total, self._name, self._unit, self._done = total, name, unit, done
        self._postfix = ""
        self._last = time.monotonic()

    def update(self, count: int = 1) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._last >= LINE_S and self._done < self._total:
            self._last = now
            said = f"{self._name}: {self._done} of {self._total} {self._unit}s{self._postfix}"
            print(said, file=sys.stderr, flush=True)

    def set_postfix(self, **values: object) -> None:
        self._postfix = "".join(f", {key} {value}" for key, value in values.items())
