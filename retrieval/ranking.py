"""From scores to hits: best first, equal scores in the order of passage ids."""

import numpy as np
import numpy.typing as npt

from .corpus import Corpus
from .errors import InputError
from .types import Hit

# Sums of the same addends in another order differ by about 1e-14. Rounded, scores that are equal
# on paper are equal here, and tie.
_SCORE_DECIMALS = 9


def check_k(k: int) -> None:
    """Check how many hits are asked for.

    Raises:
        InputError: k < 1.
    """
    if k < 1:
        raise InputError(f"k is {k}: ask for at least 1 passage")


class Ranker:
    """Orders the passages of one corpus."""

    def __init__(self, corpus: Corpus) -> None:
        """Rank all ids once, so that a query breaks its ties with array look-ups."""
        self._passages = corpus.passages
        by_id = sorted(range(len(self._passages)), key=lambda position: self._passages[position].id)
        self._id_ranks = np.empty(len(by_id), dtype=np.int64)
        self._id_ranks[by_id] = np.arange(len(by_id))

    def hits(
        self, positions: npt.NDArray[np.intp], scores: npt.NDArray[np.float64], k: int
    ) -> list[Hit]:
        """The k best of the candidates, fewer where there are fewer.

        Args:
            positions: Distinct places in the corpus, shape (candidates,).
            scores: Their scores, higher is better, shape (candidates,).
            k: The most hits, at least 1.
        """
        scores = np.round(scores, _SCORE_DECIMALS)
        if len(scores) > k:
            # All that tie with the k-th best stay in: which of them is a hit, the ids decide.
            kept = scores >= np.partition(scores, -k)[-k]
            positions, scores = positions[kept], scores[kept]
        order = np.lexsort((self._id_ranks[positions], -scores))[:k]
        best = zip(positions[order].tolist(), scores[order].tolist(), strict=True)
        return [
            Hit(self._passages[position], score, rank)
            for rank, (position, score) in enumerate(best, 1)
        ]
