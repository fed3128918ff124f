"""Advantages: exact numbers, a loop over cells, the identities of the papers."""

import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.advantages import broadcast, standardize_within

REWARDS = st.lists(st.integers(-4, 4).map(lambda n: n / 4), min_size=1, max_size=12)


def f64(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def loop(rewards: list[float], keys: list[tuple[int, ...]], eps: float) -> list[float]:
    """(R - mean) / (population std + eps) in each cell; 0 where max = min."""
    result = []
    for reward, key in zip(rewards, keys, strict=True):
        cell = [r for r, k in zip(rewards, keys, strict=True) if k == key]
        if max(cell) == min(cell):
            result.append(0.0)
            continue
        mean = math.fsum(cell) / len(cell)
        std = math.sqrt(math.fsum((r - mean) ** 2 for r in cell) / len(cell))
        result.append((reward - mean) / (std + eps))
    return result


def test_a_group_of_four_by_hand() -> None:
    # R = 1 0 0 1: mean 1/2, deviations +-1/2, population std 1/2: +-1 with eps 0.
    assert standardize_within(f64([1, 0, 0, 1]), torch.zeros(4).long(), eps=0.0).tolist() == [
        1,
        -1,
        -1,
        1,
    ]
    # R = 1 0 0 0: mean 1/4, std sqrt(3)/4: 3/4 / (sqrt(3)/4) = sqrt(3), -1/sqrt(3).
    scores = standardize_within(f64([1, 0, 0, 0]), torch.zeros(4).long(), eps=0.0)
    assert scores.tolist() == pytest.approx([math.sqrt(3)] + [-1 / math.sqrt(3)] * 3)


def test_eps_is_added_to_the_standard_deviation() -> None:
    # (1 - 1/2) / (1/2 + 1/2) = 1/2.
    scores = standardize_within(f64([1, 0]), torch.zeros(2).long(), eps=0.5)
    assert scores.tolist() == [0.5, -0.5]


def test_t14_seven_rewards_of_0_7_in_float32_give_exactly_0() -> None:
    """Their float32 mean is not 0.7: rounding over eps would be 0.86 each."""
    rewards = torch.full((7,), 0.7)
    deviation = rewards - rewards.sum() / 7
    assert deviation.abs().max() > 0
    assert standardize_within(rewards, torch.zeros(7).long(), eps=1e-8).tolist() == [0.0] * 7


def test_t14_a_cell_of_one_gives_exactly_0() -> None:
    rewards = f64([0.3, 1.0, 0.0])
    assert standardize_within(rewards, torch.tensor([5, 6, 6]), eps=0.0).tolist() == [0, 1, -1]


def test_no_rows_no_advantages() -> None:
    assert standardize_within(f64([]), torch.zeros(0).long()).tolist() == []


def test_the_dtype_is_that_of_the_rewards() -> None:
    keys = torch.zeros(2).long()
    for dtype in (torch.float32, torch.float64):
        assert standardize_within(torch.tensor([0, 1], dtype=dtype), keys).dtype == dtype


@settings(deadline=None)
@given(rewards=REWARDS, data=st.data(), eps=st.sampled_from([0.0, 1e-8, 1e-2]))
def test_one_key_equals_a_loop(rewards, data, eps) -> None:
    keys = data.draw(st.lists(st.integers(-3, 3), min_size=len(rewards), max_size=len(rewards)))
    scores = standardize_within(f64(rewards), torch.tensor(keys), eps=eps)
    assert scores.tolist() == pytest.approx(loop(rewards, [(k,) for k in keys], eps), abs=1e-9)


@settings(deadline=None)
@given(rewards=REWARDS, data=st.data(), eps=st.sampled_from([0.0, 1e-8, 1e-2]))
def test_two_keys_equal_a_loop(rewards, data, eps) -> None:
    """SAN of arXiv:2510.06214: cells of the same prompt and the same number of searches."""
    pair = st.tuples(st.integers(0, 2), st.integers(0, 2))
    keys = data.draw(st.lists(pair, min_size=len(rewards), max_size=len(rewards)))
    groups, strata = (torch.tensor(column) for column in zip(*keys, strict=True))
    scores = standardize_within(f64(rewards), groups, strata, eps=eps)
    assert scores.tolist() == pytest.approx(loop(rewards, keys, eps), abs=1e-9)


@settings(deadline=None)
@given(
    rewards=REWARDS,
    scale=st.sampled_from([0.25, 1.0, 3.0, 128.0]),
    shift=st.sampled_from([-8.0, 0.0, 0.5]),
)
def test_it_is_invariant_to_a_r_plus_b(rewards, scale, shift) -> None:
    keys = torch.arange(len(rewards)) % 2
    expected = standardize_within(f64(rewards), keys, eps=0.0)
    got = standardize_within(scale * f64(rewards) + shift, keys, eps=0.0)
    assert torch.allclose(got, expected, atol=1e-9)


@settings(deadline=None)
@given(rewards=REWARDS)
def test_a_cell_has_mean_0_and_variance_1(rewards) -> None:
    scores = standardize_within(f64(rewards), torch.zeros(len(rewards)).long(), eps=0.0)
    assert scores.sum().item() == pytest.approx(0.0, abs=1e-9)
    expected = float(max(rewards) > min(rewards))
    assert scores.square().mean().item() == pytest.approx(expected, abs=1e-9)


@settings(deadline=None)
@given(rewards=REWARDS, data=st.data())
def test_stratified_and_global_advantages_are_related_as_the_paper_says(rewards, data) -> None:
    """Section 2 of algorithms.md, on one group of several strata, eps 0 and unscaled.

    A_G = A_S + (mean of the stratum - mean), and the sums of squares differ by the variance
    between strata.
    """
    size = len(rewards)
    strata = data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    total = f64(rewards)
    mean = total.mean()
    stratum_mean = torch.stack(
        [total[torch.tensor(strata) == stratum].mean() for stratum in strata]
    )
    stratum_std = torch.stack(
        [total[torch.tensor(strata) == stratum].std(correction=0) for stratum in strata]
    )
    group = torch.zeros(size).long()
    san = standardize_within(total, group, torch.tensor(strata), eps=0.0)
    gn = standardize_within(total, group, eps=0.0)
    unscaled_global = gn * total.std(correction=0)
    unscaled_stratified = san * stratum_std
    assert torch.allclose(unscaled_global, unscaled_stratified + (stratum_mean - mean), atol=1e-9)
    between = (stratum_mean - mean).square().sum()
    difference = unscaled_global.square().sum() - unscaled_stratified.square().sum()
    assert difference.item() == pytest.approx(between.item(), abs=1e-9)


def test_keys_may_be_any_numbers_in_any_order() -> None:
    rng = random.Random(0)
    rewards = [rng.random() for _ in range(30)]
    keys = [rng.choice([10**15, -7, 0, 3]) for _ in range(30)]
    scores = standardize_within(f64(rewards), torch.tensor(keys), eps=1e-8)
    assert scores.tolist() == pytest.approx(loop(rewards, [(k,) for k in keys], 1e-8))


def test_broadcast_puts_a_rows_number_on_its_action_tokens() -> None:
    mask = torch.tensor([[False, True, True], [True, False, False]])
    assert broadcast(f64([2, -3]), mask).tolist() == [[0, 2, 2], [-3, 0, 0]]
