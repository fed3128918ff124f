"""Progress bars of long work."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from . import processes


@contextmanager
def progress_bar(total: int, name: str, unit: str) -> Iterator[Any]:
    """A bar that goes when it is done; its `update` takes a count. Process 0 alone shows it."""
    quiet = processes.rank() > 0
    options = {"dynamic_ncols": True, "leave": False, "disable": quiet}
    with tqdm(total=total, desc=name, unit=unit, **options) as bar:
        yield bar
