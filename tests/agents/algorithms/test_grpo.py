"""GRPO's identities beside the contract; its objective is checked in test_oracles.py."""

from dataclasses import replace

import torch

from agents.algorithms import grpo
from tests.agents.builds import random_batch


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
