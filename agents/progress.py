"""Progress bars of long work."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from . import processes


@contextmanager
def progress_bar(total: int, name: str, unit: str) -> Iterator[Any]:
    """A bar that goes when it is done; its `update` takes a count. Process 0 alone shows it."""
    with tqdm(
        total=total,
        desc=name,
        unit=unit,
        dynamic_ncols=True,
        leave=False,
        disable=processes.rank() > 0,
    ) as bar:
        yield bar
