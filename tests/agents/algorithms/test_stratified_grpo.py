"""Section 2's identities (arXiv:2510.06214), on random rewards and strata in float64."""

from dataclasses import replace

import pytest
import torch

from agents.advantages import center_within, standardize_within
from agents.algorithms import grpo, stratified_grpo
from agents.strata import KEYS
from agents.types import Batch
from tests.agents.builds import random_batch

EXACT = {"rtol": 1e-9, "atol": 1e-12}


def drawn(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rewards, groups of 8 and strata 0 to 2 of 40 trajectories."""
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.rand(40, generator=generator, dtype=torch.float64)
    strata = torch.randint(0, 3, (40,), generator=generator)
    return rewards, torch.arange(40) // 8, strata


def cells(*keys: torch.Tensor) -> torch.Tensor:
    return torch.unique(torch.stack(keys, dim=1), dim=0, return_inverse=True)[1]


def means(values: torch.Tensor, cell: torch.Tensor) -> torch.Tensor:
    table = [values[cell == c].mean() for c in range(int(cell.max()) + 1)]
    return torch.stack(table)[cell]


@pytest.mark.parametrize("seed", range(5))
def test_p13_the_global_advantage_is_the_stratified_one_and_the_stratums_offset(seed) -> None:
    rewards, groups, strata = drawn(seed)
    whole, within = center_within(rewards, groups), center_within(rewards, groups, strata)
    offset = means(rewards, cells(groups, strata)) - means(rewards, groups)
    assert torch.allclose(whole, within + offset, **EXACT)
    # And the variance is decomposed: what stratification removes is the variance between strata.
    for group in range(5):
        here = groups == group
        removed = whole[here].square().sum() - within[here].square().sum()
        assert removed.item() == pytest.approx(offset[here].square().sum().item(), rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_p13_gn_is_a_scaled_san_and_a_bias(seed) -> None:
    """A_GN = ((sigma_k + eps) / (sigma + eps)) SAN + (mean_k - mean) / (sigma + eps)."""
    rewards, groups, strata = drawn(seed)
    eps, cell = 1e-3, cells(groups, strata)

    def deviation(cell: torch.Tensor) -> torch.Tensor:
        return means((rewards - means(rewards, cell)).square(), cell).sqrt() + eps

    san = standardize_within(rewards, groups, strata, eps=eps)
    bias = (means(rewards, cell) - means(rewards, groups)) / deviation(groups)
    expected = deviation(cell) / deviation(groups) * san + bias
    assert torch.allclose(standardize_within(rewards, groups, eps=eps), expected, **EXACT)


@pytest.mark.parametrize("seed", range(5))
def test_p13_within_a_stratum_mean_0_and_variance_1(seed) -> None:
    rewards, groups, strata = drawn(seed)
    san, cell = standardize_within(rewards, groups, strata, eps=0.0), cells(groups, strata)
    for c in range(int(cell.max()) + 1):
        members = san[cell == c]
        assert members.mean().item() == pytest.approx(0, abs=1e-12)
        if len(members) > 1:
            assert members.square().mean().item() == pytest.approx(1, rel=1e-9)
        else:
            assert members.item() == 0.0


def advantages(batch: Batch, **options) -> torch.Tensor:
    return stratified_grpo.build(stratified_grpo.Config(**options)).advantage(batch)


def test_p13_one_stratum_is_grpo_and_so_is_alpha_0() -> None:
    batch = random_batch(3)
    expected = grpo.build(grpo.Config()).advantage(batch)
    one = replace(batch, strata=torch.full_like(batch.strata, 2))
    assert torch.allclose(advantages(one, alpha=1.0), expected, **EXACT)
    assert torch.equal(advantages(batch, alpha=0.0), expected)
    assert not torch.allclose(advantages(batch, alpha=1.0), expected)


def test_p13_invariant_to_a_r_plus_b() -> None:
    batch = random_batch(4)
    rows, last = torch.arange(len(batch)), batch.turn_ids.max(1).values
    rewards = batch.rewards.clone()
    rewards[rows, last] = 2.5 * rewards[rows, last] - 0.75
    changed = replace(batch, rewards=rewards)
    expected = advantages(batch, std_eps=0.0)
    assert torch.allclose(advantages(changed, std_eps=0.0), expected, **EXACT)


def test_seven_equal_rewards_in_float32_give_exactly_0() -> None:
    """Rounding would give them a deviation of 1e-8 and so an advantage near 1."""
    rewards = torch.full((7,), 0.7)
    assert not standardize_within(rewards, torch.zeros(7, dtype=torch.int64)).any()


class TestStrata:
    def test_searches_are_the_executed_ones_and_turns_those_taken(self) -> None:
        batch = random_batch(5)
        assert KEYS["searches"](batch).tolist() == batch.strata.tolist()
        assert KEYS["turns"](batch).tolist() == (batch.turn_ids.max(1).values + 1).tolist()

    def test_random_strata_keep_the_sizes_within_each_group_and_nothing_else(self) -> None:
        batch = random_batch(6, rows=40)
        label = KEYS["random"](batch)
        assert label.tolist() == KEYS["random"](batch).tolist() != batch.strata.tolist()
        for group in batch.group_ids.unique():
            here = batch.group_ids == group
            assert sorted(label[here].tolist()) == sorted(batch.strata[here].tolist())
