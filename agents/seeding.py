"""Seeds from a seed and a path of numbers, so that no two draws of a run share a stream.

A draw that depends only on (run seed, what it is for, step) needs no saved generator state: a
resumed run makes the same draws as an uninterrupted one.
"""

from enum import IntEnum
from functools import lru_cache

import numpy as np


class Draw(IntEnum):
    """What a seed is for."""

    ADAPTER = 0
    QUESTION_ORDER = 1
    SAMPLING = 2
    MINIBATCHES = 3
    WARM_START = 4
    GROUP = 5
    CRITIC = 6
    THOMPSON = 7
    TRANSCRIPTS = 8
    TURN = 9


def derive(seed: int, purpose: Draw, *path: int) -> int:
    """A 63-bit seed; different arguments give unrelated streams (numpy's SeedSequence)."""
    # A spawn key, not more entropy: a seed of two 32-bit words would run into the purpose.
    sequence = np.random.SeedSequence(seed % 2**64, spawn_key=(int(purpose), *path))
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


def question_index(draw: int, total: int, seed: int) -> int:
    """Which question the run's `draw`-th prompt is: epochs of shuffled passes over `total`."""
    epoch, position = divmod(draw, total)
    return int(_order(epoch, total, seed)[position])


@lru_cache(maxsize=2)  # a step asks for its questions one by one, at most across two epochs
def _order(epoch: int, total: int, seed: int) -> np.ndarray:
    """One shuffled pass: (total,) int64."""
    return np.random.default_rng(derive(seed, Draw.QUESTION_ORDER, epoch)).permutation(total)
