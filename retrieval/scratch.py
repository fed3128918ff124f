"""Temporary folders that a fork leaves alone."""

import os
import shutil
import tempfile
import weakref
from pathlib import Path


class Scratch:
    """A folder that is removed with this object, or when the process exits.

    `tempfile.TemporaryDirectory` is removed by a forked child too, as soon as it drops its copy.

    Attributes:
        folder: Exists and is empty at first.
    """

    def __init__(self, prefix: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=prefix))
        weakref.finalize(self, _remove, self.folder, os.getpid())


def _remove(folder: Path, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)
