"""Behaviour cloning: minus the mean log-likelihood of the demonstrations' action tokens."""

from dataclasses import replace

import pytest
import torch

from agents.algorithms import sft
from agents.batching import to_batch
from tests.agents import builds


def test_the_loss_is_the_mean_negative_log_likelihood() -> None:
    batch = builds.double(to_batch(builds.random_trajectories(6, seed=3), 1))
    algorithm = sft.build(sft.Config())
    logprobs = batch.ref_logprobs.clone().requires_grad_()
    terms = algorithm.loss(logprobs, batch, algorithm.advantage(batch))
    loss = (terms.per_token * algorithm.weights(batch.action_mask)).sum()
    loss.backward()
    values = [
        logprobs[i, t].item()
        for i in range(len(batch))
        for t in range(batch.input_ids.shape[1])
        if batch.action_mask[i, t]
    ]
    assert loss.item() == pytest.approx(-sum(values) / len(values), rel=1e-6)
    expected = torch.where(batch.action_mask, -1 / len(values), 0.0)
    assert torch.allclose(logprobs.grad, expected.double(), rtol=1e-6, atol=0)
    assert not terms.clipped.any()


def test_rewards_and_sampling_logprobs_are_not_looked_at() -> None:
    batch = builds.double(to_batch(builds.random_trajectories(6, seed=3), 1))
    other = replace(
        batch, rewards=batch.rewards + 1, old_logprobs=torch.zeros_like(batch.old_logprobs)
    )
    algorithm = sft.build(sft.Config())
    losses = [
        algorithm.loss(batch.ref_logprobs, b, algorithm.advantage(b)).per_token
        for b in (batch, other)
    ]
    assert torch.equal(*losses)
