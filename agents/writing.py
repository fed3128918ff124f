"""Files and folders that are there whole or not at all: written aside, then renamed."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from retrieval.errors import InputError


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


def check_creatable(key: str, folder: Path) -> None:
    """Find out before the work starts that its results could not be written.

    Raises:
        InputError: Something that is no folder stands in the way, or permission is missing.
    """
    try:
        parent = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    except OSError as error:
        raise InputError(f"{key}: {folder}: {error.strerror}; choose another folder") from error
    if not (parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)):
        raise InputError(
            f"{key}: {folder} cannot be made: {parent} is not a folder that can be written to; "
            "choose another"
        )
