"""Embeddings of a corpus in numbered chunk files, so that a killed encoding goes on.

A chunk is `000012.npy`, float32, shape (passages, dimension); it is renamed to that name when it is
whole. float32, not float16: an exact index must hold what the encoder said, and half precision
moves scores by about 1e-4, which swaps near ties. The chunks are removed once they are indexed.
"""

import io
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from .errors import InputError
from .types import Passage

# A kill loses at most one chunk of work: seconds on an accelerator, a minute on one core.
CHUNK_PASSAGES = 4096
# Few enough for the bar to move, enough to sort by length.
_STEP = 256

Vectors = npt.NDArray[np.float32]


class ChunkedEmbeddings:
    """The embeddings in a folder; read chunk by chunk, memory-mapped.

    Attributes:
        shape: (passages, dimension).
    """

    def __init__(self, folder: Path, shape: tuple[int, int]) -> None:
        self._folder = folder
        self.shape = shape

    def encode(
        self, passages: Sequence[Passage], encode: Callable[[Sequence[Passage]], Vectors]
    ) -> None:
        """Write the chunks that are missing; shows passages a second and the time left."""
        self._folder.mkdir(parents=True, exist_ok=True)
        missing = [span for span in enumerate(self._spans()) if not self._file(span[0]).exists()]
        done = self.shape[0] - sum(end - start for _, (start, end) in missing)
        with tqdm(
            total=self.shape[0],
            initial=done,
            desc="encode",
            unit=" passages",
            delay=1,
            disable=None,
        ) as bar:
            for number, (start, end) in missing:
                parts = []
                for place in range(start, end, _STEP):
                    piece = passages[place : min(place + _STEP, end)]
                    parts.append(encode(piece))
                    bar.update(len(piece))
                _write_array(self._file(number), np.concatenate(parts))

    def __iter__(self) -> Iterator[Vectors]:
        for number, (start, end) in enumerate(self._spans()):
            yield self._read(number, end - start)

    def sample(self, size: int) -> Vectors:
        """Rows drawn without repeats and with a fixed seed, in corpus order; shape (size, d)."""
        count, dimension = self.shape
        if size >= count:
            chosen = np.arange(count)
        else:
            chosen = np.sort(np.random.default_rng(0).choice(count, size, replace=False))
        rows = np.empty((len(chosen), dimension), dtype=np.float32)
        for number, (start, end) in enumerate(self._spans()):
            low, high = np.searchsorted(chosen, [start, end])
            if low < high:
                rows[low:high] = self._read(number, end - start)[chosen[low:high] - start]
        return rows

    def _spans(self) -> Iterator[tuple[int, int]]:
        for start in range(0, self.shape[0], CHUNK_PASSAGES):
            yield start, min(start + CHUNK_PASSAGES, self.shape[0])

    def _file(self, number: int) -> Path:
        return self._folder / f"{number:06}.npy"

    def _read(self, number: int, rows: int) -> Vectors:
        file = self._file(number)
        try:
            vectors: Vectors = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InputError(f"{file}: cannot be read ({error}); remove it, build again") from error
        if vectors.shape != (rows, self.shape[1]) or vectors.dtype != np.float32:
            raise InputError(f"{file}: not a chunk of this build; remove it, build again")
        return vectors


def _write_array(file: Path, array: Vectors) -> None:
    """Whole or not at all."""
    # Not np.save into the file: it does not say when the last bytes find the disk full.
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    aside = file.with_name(f"{file.name}.new")
    with aside.open("wb") as out:
        out.write(content.getbuffer())
        out.flush()
        os.fsync(out.fileno())
    aside.replace(file)
