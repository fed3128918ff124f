"""GRPO against plain loops over its definition (arXiv:2402.03300 and algorithms.md, section 4)."""

import math
from dataclasses import replace

import pytest
import torch

from agents.algorithms import grpo
from agents.batching import to_batch
from agents.types import Batch
from tests.agents import builds


def random_batch(seed: int) -> Batch:
    return builds.double(to_batch(builds.random_trajectories(12, seed=seed), 1), seed)


def objective(
    config: grpo.Config, batch: Batch, logprobs: torch.Tensor
) -> tuple[torch.Tensor, int]:
    """-1/B sum_i 1/|y_i| sum_t min(w A, clip(w) A), token by token; and the clipped tokens."""
    returns = [sum(row) for row in batch.rewards.tolist()]
    groups = batch.group_ids.tolist()
    total, clipped = torch.zeros((), dtype=torch.float64), 0
    for i in range(len(batch)):
        peers = [returns[j] for j in range(len(batch)) if groups[j] == groups[i]]
        mean = sum(peers) / len(peers)
        std = math.sqrt(sum((r - mean) ** 2 for r in peers) / len(peers))
        score = 0.0 if max(peers) == min(peers) else (returns[i] - mean) / (std + config.std_eps)
        tokens = [t for t in range(batch.input_ids.shape[1]) if batch.action_mask[i, t]]
        for t in tokens:
            w = torch.exp(logprobs[i, t] - batch.old_logprobs[i, t])
            low, high = 1 - config.clip_eps, 1 + config.clip_eps
            bounded = low if w.item() < low else high if w.item() > high else w
            left, right = w * score, torch.as_tensor(bounded * score, dtype=w.dtype)
            inside = left.item() <= right.item()
            total = total - (left if inside else right) / len(tokens) / len(batch)
            clipped += not inside
    return total, clipped


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "config", [grpo.Config(), grpo.Config(clip_eps=0.05, std_eps=0.1)], ids=["default", "other"]
)
def test_p14_value_gradient_and_clipped_tokens_equal_plain_loops(config, seed) -> None:
    batch = random_batch(seed)
    noise = torch.randn(batch.input_ids.shape, generator=torch.Generator().manual_seed(seed))
    logprobs = batch.old_logprobs + 0.3 * noise * batch.action_mask
    mine, theirs = (logprobs.clone().requires_grad_() for _ in range(2))
    expected, clipped = objective(config, batch, theirs)
    expected.backward()
    algorithm = grpo.build(config)
    terms = algorithm.loss(mine, batch, algorithm.advantage(batch))
    loss = (terms.per_token * algorithm.weights(batch.action_mask).double()).sum()
    loss.backward()
    assert clipped > 10
    # The weights are float32: 1e-7.
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert torch.allclose(mine.grad, theirs.grad, rtol=1e-6, atol=1e-9)
    assert int((terms.clipped & batch.action_mask).sum()) == clipped


def test_on_policy_the_gradient_is_minus_weight_times_advantage_at_every_token() -> None:
    """Property 2 of section 5, token by token."""
    batch = random_batch(0)
    algorithm = grpo.build(grpo.Config())
    logprobs = batch.old_logprobs.clone().requires_grad_()
    advantages = algorithm.advantage(batch)
    weights = algorithm.weights(batch.action_mask)
    (algorithm.loss(logprobs, batch, advantages).per_token * weights).sum().backward()
    assert torch.allclose(logprobs.grad, -weights * advantages, rtol=1e-9, atol=0)


def test_the_advantage_is_invariant_to_a_r_plus_b_within_a_group() -> None:
    batch = random_batch(1)
    algorithm = grpo.build(grpo.Config(std_eps=0.0))
    last = batch.turn_ids.max(1).values
    shifted = batch.rewards.clone()
    rows = torch.arange(len(batch))
    # A constant of the group's own on every trajectory's last turn.
    shifted[rows, last] = 3 * shifted[rows, last] + batch.group_ids.double()
    expected = algorithm.advantage(batch)
    got = algorithm.advantage(replace(batch, rewards=shifted))
    assert torch.allclose(got, expected, atol=1e-9) and expected.abs().max() > 0.5


def test_it_does_not_matter_at_which_turn_the_reward_comes() -> None:
    batch = random_batch(2)
    algorithm = grpo.build(grpo.Config())
    spread = torch.zeros_like(batch.rewards)
    spread[:, 0] = batch.returns
    got = algorithm.advantage(replace(batch, rewards=spread))
    assert torch.equal(got, algorithm.advantage(batch))


def test_the_kl_coefficient_is_the_algorithms() -> None:
    assert grpo.build(grpo.Config()).kl_coef == 0.0
    assert grpo.build(grpo.Config(kl_coef=0.01)).kl_coef == 0.01
