"""A FAISS index on disk: written whole, opened memory-mapped, searched to the last digit.

FAISS finds candidates in float32, and its sums depend on how many queries it is asked at once. So
the scores of the candidates are computed anew in float64 from the vectors that the index gives
back, one query at a time, and where the k-th cannot be told from what was not looked at, more
candidates are looked at. Of vectors that the index compresses, the score is that of the compressed.
A graph (HNSW) leads to only some of very many equal vectors; which, is up to FAISS.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .errors import InputError
from .hub import first_line

if TYPE_CHECKING:
    import faiss

# Two encodings of a text in different batches differ by 1e-7: rounded, their scores mostly tie.
_DECIMALS = 6
# Candidates beyond k: near the k-th, float32 sums may have another order than exact ones.
_MARGIN = 16
_FLOAT32_ERROR = 1e-5
# Numbers of the vectors that are given back at once: 64 MB.
_BLOCK = 1 << 24

Vectors = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


def write_index(index: "faiss.Index", file: Path) -> None:
    """Write an index, whole or not at all."""
    import faiss

    aside = file.with_name(f"{file.name}.new")
    faiss.write_index(index, str(aside))
    aside.replace(file)


class VectorIndex:
    """An open index; threads may share it.

    Attributes:
        index: FAISS's own object.
    """

    def __init__(self, file: Path) -> None:
        """Map the file.

        Raises:
            InputError: It is missing or damaged.
        """
        import faiss

        try:
            # Of all flags, this one maps flat, graph and inverted-file indexes alike.
            self.index = faiss.read_index(str(file), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise InputError(
                f"{file}: cannot be read ({first_line(error)[:200]}); build it again"
            ) from error

    def __len__(self) -> int:
        return int(self.index.ntotal)

    def nearest(self, vectors: Vectors, k: int) -> list[tuple[Places, Scores]]:
        """The nearest of each query, in no order: k, those that tie with the k-th, or fewer.

        Args:
            vectors: Queries, shape (queries, dimension).
            k: How many, at least 1.

        Returns:
            Places in the corpus and scores, rounded to 6 decimals.
        """
        return self._nearest(vectors, min(k, len(self)), min(len(self), k + _MARGIN))

    def _nearest(self, vectors: Vectors, k: int, wide: int) -> list[tuple[Places, Scores]]:
        """From `wide` candidates, or from more where those are all equally near."""
        answers = []
        rows = max(1, _BLOCK // (wide * self.index.d))
        for start in range(0, len(vectors), rows):
            block = vectors[start : start + rows]
            found = self.index.search_and_reconstruct(block, wide)
            for query, near, places, kept in zip(block, *found, strict=True):
                if wide < len(self) and _undecided(query, near, places, kept[k - 1], k):
                    answers += self._nearest(query[None], k, min(len(self), 4 * wide))
                    continue
                there = places >= 0  # -1: the lists that were read hold fewer than asked for
                scores = kept[there].astype(np.float64) @ query.astype(np.float64)
                answers.append(_best(places[there], scores.round(_DECIMALS), k))
        return answers


def _undecided(query: Vectors, near: Vectors, places: Places, kth: Vectors, k: int) -> bool:
    """Whether passages that were not looked at may be as near as the k-th, but for rounding."""
    error = _FLOAT32_ERROR * float(np.linalg.norm(query) * np.linalg.norm(kth))
    return bool(places[-1] >= 0 and near[k - 1] - near[-1] <= error)


def _best(places: Places, scores: Scores, k: int) -> tuple[Places, Scores]:
    if len(scores) <= k:
        return places, scores
    kept = scores >= np.partition(scores, -k)[-k]
    return places[kept], scores[kept]
