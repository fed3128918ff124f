"""Intervals and tests over questions: bootstrap, paired bootstrap, paired permutation test."""

from collections.abc import Sequence

import numpy as np

Interval = dict[str, float]
RESAMPLES = 10_000
_BLOCK = 500  # resamples drawn at once: bounds memory at _BLOCK x n
_EXACT = 16  # up to so many differences that are not 0, all sign patterns are counted


def bootstrap(values: Sequence[float], seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The mean and its 95 % percentile bootstrap interval (Efron 1979).

    Args:
        values: One number per question; at least one.
        seed: Of the resampling.
        resamples: How many are drawn.

    Returns:
        {"mean", "low", "high"}.

    Raises:
        ValueError: No values.
    """
    data = np.asarray(values, dtype=np.float64)
    if not len(data):
        raise ValueError("bootstrap: no values")
    random = np.random.default_rng(seed)
    means = np.concatenate(
        [
            data[random.integers(len(data), size=(size, len(data)))].mean(1)
            for size in _blocks(resamples)
        ]
    )
    low, high = np.percentile(means, [2.5, 97.5])
    return {"mean": float(data.mean()), "low": float(low), "high": float(high)}


def paired_bootstrap(after: Sequence[float], before: Sequence[float], seed: int = 0) -> Interval:
    """The mean of after - before over the same questions, and its interval.

    Questions, not results, are resampled: what both find hard cancels.

    Raises:
        ValueError: The two differ in length, or are empty.
    """
    return bootstrap([a - b for a, b in zip(after, before, strict=True)], seed)


def paired_permutation(
    after: Sequence[float], before: Sequence[float], seed: int = 0, resamples: int = RESAMPLES
) -> float:
    """The two-sided p-value of Fisher's paired randomisation test (1935) on the mean difference.

    Under the null hypothesis each question's two results could as well be exchanged, which flips
    the sign of its difference. The p-value is the share of sign patterns whose mean is at least as
    far from 0 as the observed one: of all patterns if at most 16 differences are not 0 (for results
    of 0 and 1 that is McNemar's exact test), else of `resamples` drawn ones, the observed pattern
    counted among them ((count + 1) / (resamples + 1), so that the test holds its level; Phipson and
    Smyth 2010, arXiv:1603.05766).

    Args:
        after: One number per question; at least one.
        before: The same questions' other results.
        seed: Of the drawn patterns.
        resamples: How many are drawn.

    Raises:
        ValueError: The two differ in length, or are empty.
    """
    differences = np.asarray([a - b for a, b in zip(after, before, strict=True)], dtype=np.float64)
    if not len(differences):
        raise ValueError("paired_permutation: no values")
    flipped = differences[differences != 0]
    # Sums that are equal on paper may differ in their last bits.
    bound = abs(flipped.sum()) - 1e-9 * np.abs(flipped).sum()
    if len(flipped) <= _EXACT:
        bits = np.arange(2 ** len(flipped))[:, None] >> np.arange(len(flipped)) & 1
        return float((np.abs((1 - 2 * bits) @ flipped) >= bound).mean())
    random = np.random.default_rng(seed)
    count = 0
    for size in _blocks(resamples):
        signs = 2.0 * random.integers(2, size=(size, len(flipped)), dtype=np.int8) - 1
        count += int((np.abs(signs @ flipped) >= bound).sum())
    return (count + 1) / (resamples + 1)


def _blocks(resamples: int) -> list[int]:
    return [min(_BLOCK, resamples - start) for start in range(0, resamples, _BLOCK)]
