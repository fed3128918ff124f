"""Repeated n-grams, counted by hand."""

import pytest

from agents.repetition import repeat_rate


@pytest.mark.parametrize(
    ("turns", "rate"),
    [
        ([], 0.0),
        ([[1, 2, 3]], 0.0),  # no 4-gram
        ([[1, 2, 3, 4, 5, 6]], 0.0),
        ([[7] * 8], 4 / 5),  # five 4-grams, one of them new
        ([[1, 2, 3, 4, 1, 2, 3, 4]], 1 / 5),
        # Another turn may say the same; and rates are over all n-grams: (0 + 1) of (1 + 2).
        ([[1, 2, 3, 4], [7, 7, 7, 7, 7]], 1 / 3),
        ([[1, 2, 3, 4], [1, 2, 3, 4]], 0.0),
    ],
)
def test_the_share_of_what_stood_there_before(turns: list[list[int]], rate: float) -> None:
    assert repeat_rate(turns) == pytest.approx(rate)
