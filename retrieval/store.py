"""Passages on disk: read one at a time from a memory-mapped file, so that memory does not grow.

Two files: `passages.jsonl` (id, title, text; one passage a line) and `offsets.bin` (uint64, little
endian: where each line begins, and the file's length last).
"""

import hashlib
import json
import mmap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np

from .corpus import add_to_digest
from .errors import InputError
from .types import Passage

PASSAGES, OFFSETS = "passages.jsonl", "offsets.bin"
_OFFSET = np.dtype("<u8")


def write_store(passages: Iterable[Passage], folder: Path) -> tuple[int, str]:
    """Write passages one by one.

    Args:
        passages: At least one; ids are not compared (`corpus.stream` does that).
        folder: Exists; a store in it is overwritten.

    Returns:
        Their number and the corpus fingerprint.

    Raises:
        InputError: There are none.
    """
    digest = hashlib.sha256()
    count, offset = 0, 0
    with (folder / PASSAGES).open("wb") as lines, (folder / OFFSETS).open("wb") as offsets:
        for passage in passages:
            add_to_digest(digest, passage)
            fields = {"id": passage.id, "title": passage.title, "text": passage.text}
            line = json.dumps(fields, ensure_ascii=False).encode() + b"\n"
            offsets.write(offset.to_bytes(8, "little"))
            lines.write(line)
            offset += len(line)
            count += 1
        offsets.write(offset.to_bytes(8, "little"))
    if not count:
        raise InputError("the corpus is empty: give at least one passage")
    return count, f"sha256:{digest.hexdigest()}"


class PassageStore(Sequence[Passage]):
    """The passages of a folder, in order; threads may share it."""

    def __init__(self, folder: Path) -> None:
        """Map the files.

        Raises:
            InputError: Missing, empty or cut short.
        """
        self._folder = folder
        try:
            self._offsets = np.memmap(folder / OFFSETS, dtype=_OFFSET, mode="r")
            with (folder / PASSAGES).open("rb") as file:
                self._lines = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{folder}: the passages cannot be read ({error}); build it again"
            ) from error
        if len(self._lines) != int(self._offsets[-1]):
            raise InputError(f"{folder}: {PASSAGES} is cut short; build it again")

    def __reduce__(self) -> tuple[type["PassageStore"], tuple[Path]]:
        return PassageStore, (self._folder,)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> Passage: ...
    @overload
    def __getitem__(self, index: slice) -> list[Passage]: ...
    def __getitem__(self, index: int | slice) -> Passage | list[Passage]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]  # negative indices, and an IndexError beyond the end
        start, end = self._offsets[place : place + 2].tolist()
        return Passage(**json.loads(self._lines[start:end]))

    def __iter__(self) -> Iterator[Passage]:
        return (self[place] for place in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
