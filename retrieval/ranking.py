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


def rank_ids(corpus: Corpus) -> npt.NDArray[np.int64]:
    """Where the id of each passage stands among all of them sorted, shape (passages,)."""
    ids = [passage.id for passage in corpus.passages]
    by_id = sorted(range(len(ids)), key=ids.__getitem__)
    ranks = np.empty(len(ids), dtype=np.int64)
    ranks[by_id] = np.arange(len(ids))
    return ranks


class Ranker:
    """Orders the passages of one corpus."""

    def __init__(self, corpus: Corpus, id_ranks: npt.NDArray[np.int64] | None = None) -> None:
        """Rank all ids once, so that a query breaks its ties with array look-ups.

        Args:
            corpus: Whose passages; they may lie on disk.
            id_ranks: What `rank_ids` gives for this corpus, if that was kept; may lie on disk too.
        """
        self._passages = corpus.passages
        self._id_ranks = rank_ids(corpus) if id_ranks is None else id_ranks

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
