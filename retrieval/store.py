"""Passages on disk: read one at a time from a memory-mapped file, so that memory does not grow.

Two files: `passages.jsonl` (id, title, text; one passage a line) and `offsets.bin` (uint64, little
endian: where each line begins, and the file's length last).
"""

import hashlib
import json
import mmap
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np

from .corpus import add_to_digest, stream_corpus
from .errors import InputError
from .types import Passage

PASSAGES, OFFSETS = "passages.jsonl", "offsets.bin"
_OFFSET = np.dtype("<u8")


def write_store(passages: Iterable[Passage], folder: Path) -> tuple[int, str]:
    """Write passages one by one.

    Args:
        passages: At least one; ids are not compared (`unique_passages` does that).
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
        for file in (lines, offsets):  # on disk before anything vouches for them
            file.flush()
            os.fsync(file.fileno())
    if not count:
        raise InputError("the corpus is empty: give at least one passage")
    return count, f"sha256:{digest.hexdigest()}"


def unique_passages(path: Path) -> Iterator[Passage]:
    """The passages of a corpus file; 8 bytes of memory for each, to see that no id occurs twice.

    Raises:
        InputError: At the end: two passages share an id; the message names both lines.
    """
    hashes = array("Q")
    for _, passage in stream_corpus(path):
        hashes.append(_hash(passage.id))
        yield passage
    ordered = np.sort(np.frombuffer(hashes, dtype=np.uint64)) if hashes else np.empty(0)
    twice = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
    seen: dict[str, str] = {}
    for place, passage in stream_corpus(path) if twice else ():
        if _hash(passage.id) in twice:
            if passage.id in seen:
                raise InputError(
                    f"{path}: {place}: id {passage.id!r} stands at {seen[passage.id]} already; "
                    "ids must be unique"
                )
            seen[passage.id] = place


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


class PassageStore(Sequence[Passage]):
    """The passages of a folder, in order; threads may share it."""

    def __init__(self, folder: Path) -> None:
        """Map the files.

        Raises:
            InputError: Missing, empty, cut short or damaged.
        """
        self._folder = folder.absolute()
        try:
            # As a plain array: slices of a memmap cost ten times as much.
            self._offsets = np.asarray(np.memmap(folder / OFFSETS, dtype=_OFFSET, mode="r"))
            with (folder / PASSAGES).open("rb") as file:
                self._lines = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{folder}: the passages cannot be read ({error}); build it again"
            ) from error
        if len(self._lines) != int(self._offsets[-1]):
            raise InputError(f"{folder}: {PASSAGES} and {OFFSETS} do not fit; build it again")

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
        try:
            return Passage(**json.loads(self._lines[start:end].decode()))
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{self._folder}: passage {place + 1} of {PASSAGES} is damaged; build it again"
            ) from error

    def __iter__(self) -> Iterator[Passage]:
        return (self[place] for place in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
