"""Honest intervals: percentile bootstrap over questions, and the paired one for differences."""

from collections.abc import Sequence

import numpy as np

Interval = dict[str, float]
RESAMPLES = 10_000
_BLOCK = 500  # resamples drawn at once: bounds memory at _BLOCK x n


def bootstrap(values: Sequence[float], seed: int = 0) -> Interval:
    """The mean and its 95 % percentile bootstrap interval (Efron 1979), 10,000 resamples.

    Args:
        values: One number per question; at least one.
        seed: Of the resampling.

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
            data[random.integers(len(data), size=(_BLOCK, len(data)))].mean(1)
            for _ in range(RESAMPLES // _BLOCK)
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
