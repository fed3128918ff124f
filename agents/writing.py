"""Files and folders that are there whole or not at all: written aside, then renamed."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from retrieval.errors import InputError

_FILE, _FOLDER = ".*.writing", "writing-*"


class WriteError(RuntimeError):
    """A folder could not be written to: full, read-only, gone. One line, without a remedy."""


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Name the folder where something in it cannot be written.

    Raises:
        WriteError: Instead of an error of the system, or of safetensors, which hides one.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        number = re.search(r"os error (\d+)", str(error))  # how safetensors tells
        reason = os.strerror(int(number[1])) if number else getattr(error, "strerror", None)
        raise WriteError(f"cannot write to {folder}: {reason or repr(error)}") from error


def write_text(file: Path, text: str) -> None:
    """Write a UTF-8 file; an earlier one stays until the new one is complete."""
    scratch = file.with_name(f".{file.name}.writing")
    try:
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(file)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise


@contextmanager
def scratch_folder(target: Path) -> Iterator[Path]:
    """An empty folder beside `target`, for the caller to fill and rename to it.

    What has not been renamed by the end is removed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    outer = Path(tempfile.mkdtemp(dir=target.parent, prefix=_FOLDER[:-1]))
    # Inside mkdtemp's folder, which is nobody else's to read: a plain folder is.
    folder = outer / target.name
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def put_in_place(folder: Path, target: Path) -> None:
    """Rename a filled `scratch_folder` to its target; an earlier one there goes.

    It is renamed into the scratch before it is removed: half of it is never called `target`.
    """
    if target.exists():
        target.rename(folder.parent / "earlier")
    folder.rename(target)


def remove_folder(folder: Path) -> None:
    """Remove a folder; killed meanwhile, what is left of it no longer has its name."""
    with scratch_folder(folder) as aside:
        folder.rename(aside)


def clear_scratch(folder: Path) -> None:
    """Remove what a killed process has left half-written, in a folder and those below it."""
    for file in list(folder.rglob(_FILE)):
        file.unlink()
    for scratch in list(folder.rglob(_FOLDER)):
        shutil.rmtree(scratch)


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
