"""BAPO's bounds: property 12, and the search by hand."""

import itertools

import pytest
import torch

from agents.algorithms import bapo


def test_p12_the_bounds_tried_stay_in_range_and_rise_one_after_the_other() -> None:
    tried = list(bapo.Config().candidates())
    assert tried[0] == (0.6, 1.2) and tried[-1] == (0.9, 3.0)
    # 0.6, 0.65, ... 0.9: 7 lower bounds; then 1.25, ... 3.0: 36 upper ones.
    assert len(tried) == 7 + 36
    for (low, high), (next_low, next_high) in itertools.pairwise(tried):
        assert (next_low > low and next_high == high) or (low == 0.9 and next_high > high)
        assert 0.6 <= next_low <= 0.9 and 1.2 <= next_high <= 3.0


@pytest.mark.parametrize(
    ("low", "high", "share"),
    [
        # A = +1 at w = 2, A = -1 at w = 0.5: min(2, high) against max(0.5, low).
        (0.6, 1.2, 1.2 / 1.8),
        (0.9, 1.2, 1.2 / 2.1),
        (0.9, 3.0, 2.0 / 2.9),
    ],
)
def test_the_share_by_hand(low, high, share) -> None:
    ratios, advantages = torch.tensor([[2.0, 0.5, 9.0]]), torch.tensor([[1.0, -1.0, 0.0]])
    assert bapo.positive_share(ratios, advantages, low, high) == pytest.approx(share)
    assert bapo.positive_share(ratios, advantages.abs(), low, high) == 1.0
