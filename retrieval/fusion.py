"""Several answers to one query made one.

    reciprocal ranks   score(d) = sum over answers i that hold d of w_i / (60 + rank_i(d))
    weighted scores    score(d) = sum over answers i that hold d of w_i * s_i(d), where
                       s_i = (score - min) / (max - min) over that answer; 1 where all are equal

The first is Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and
individual Rank Learning Methods" (SIGIR 2009), with their constant 60, weights added. Sums are
exactly rounded, so they do not depend on the order of the answers; equal sums are ordered by id.
"""

import math
from collections.abc import Sequence

from .types import Hit, Passage

RANK_OFFSET = 60


def by_reciprocal_rank(
    answers: Sequence[Sequence[Hit]], weights: Sequence[float], k: int
) -> list[Hit]:
    """The k best by reciprocal rank fusion.

    Args:
        answers: One list of hits per engine.
        weights: One per engine, positive.
        k: The most hits.
    """
    parts = [[1.0 / (RANK_OFFSET + hit.rank) for hit in hits] for hits in answers]
    return _fused(answers, parts, weights, k)


def by_weighted_score(
    answers: Sequence[Sequence[Hit]], weights: Sequence[float], k: int
) -> list[Hit]:
    """The k best by normalised score; arguments as for `by_reciprocal_rank`."""
    return _fused(answers, [_normalised(hits) for hits in answers], weights, k)


def _normalised(hits: Sequence[Hit]) -> list[float]:
    """Scores scaled to 0..1."""
    scores = [hit.score for hit in hits]
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    if high == low:
        return [1.0] * len(scores)
    return [(score - low) / (high - low) for score in scores]


def _fused(
    answers: Sequence[Sequence[Hit]],
    parts: Sequence[Sequence[float]],
    weights: Sequence[float],
    k: int,
) -> list[Hit]:
    passages, addends = dict[str, Passage](), dict[str, list[float]]()
    for hits, values, weight in zip(answers, parts, weights, strict=True):
        for hit, value in zip(hits, values, strict=True):
            passages.setdefault(hit.passage.id, hit.passage)
            addends.setdefault(hit.passage.id, []).append(weight * value)
    sums = {identifier: math.fsum(values) for identifier, values in addends.items()}
    best = sorted(sums, key=lambda identifier: (-sums[identifier], identifier))[:k]
    return [Hit(passages[found], sums[found], rank) for rank, found in enumerate(best, 1)]
