"""Files and folders that are there whole or not at all: written aside, then renamed."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_text(file: Path, text: str) -> None:
    """Write a UTF-8 file; an earlier one stays until the new one is complete."""
    scratch = file.with_name(f".{file.name}.writing")
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(file)


@contextmanager
def scratch_folder(target: Path) -> Iterator[Path]:
    """An empty folder beside `target`, for the caller to fill and rename to it.

    What has not been renamed by the end is removed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    outer = Path(tempfile.mkdtemp(dir=target.parent, prefix="writing-"))
    # Inside mkdtemp's folder, which is nobody else's to read: a plain folder is.
    folder = outer / target.name
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(outer, ignore_errors=True)
