"""The importance correction: exact numbers, the trainer's gradient, and what it leaves alone."""

import math
from dataclasses import replace

import pytest
import torch

from agents.algorithms import so_grpo
from agents.batching import to_batch
from agents.correction import correct
from agents.losses import Terms
from agents.penalty import Penalty
from tests.agents import builds
from tests.agents.training_parts import GRPO, gradients, sampled, still


def two_turns():
    """One row of two turns: the sampler gave 0.5, 0.2 and 0.8 to the three tokens."""
    sampled_at = [[math.log(0.5)], [math.log(0.2), math.log(0.8)]]
    return to_batch([builds.trajectory(([3], [4]), ([5, 6], [7, 8]), logprobs=sampled_at)], 1)


def test_weights_are_the_capped_ratios_of_policy_to_sampler() -> None:
    """0.4 / 0.5 = 0.8; 0.6 / 0.2 = 3, cut at 2; 0.8 / 0.8 = 1. Mean |log ratio| of 3 tokens."""
    batch = two_turns()
    policy = torch.zeros_like(batch.old_logprobs)
    policy[batch.action_mask] = torch.tensor([0.4, 0.6, 0.8]).log()
    policy[~batch.action_mask] = math.nan  # what stands there means nothing
    corrected = correct(batch, policy, cap=2.0)
    assert corrected.batch.corrections is not None
    assert corrected.batch.corrections[0].tolist() == pytest.approx([0, 0.8, 0, 0, 2.0, 1.0])
    assert corrected.batch.old_logprobs is policy
    gap = (math.log(0.5 / 0.4) + math.log(3) + 0) / 3
    assert corrected.metrics == pytest.approx(
        {"sampler_mismatch": gap, "importance_capped": 1 / 3}, rel=1e-6
    )


def test_a_token_that_the_sampler_held_impossible_weighs_the_cap() -> None:
    batch = two_turns()
    sampler = torch.where(batch.action_mask, -math.inf, 0.0)
    policy = torch.where(batch.action_mask, -1.0, 0.0)
    corrected = correct(replace(batch, old_logprobs=sampler), policy, cap=2.0).batch
    assert corrected.corrections is not None
    assert corrected.corrections[batch.action_mask].tolist() == [2.0, 2.0, 2.0]


def test_the_gradient_is_that_of_a_loop_over_weighted_tokens() -> None:
    """GRPO with an off-policy sampler, the KL penalty unweighted: a loop over full logits."""
    policy = builds.build_policy(b_std=0.1)
    trainer = still(policy, replace(GRPO, zero_advantage_is_inert=False), penalty=Penalty(kl=0.3))
    batch = sampled(policy, spread=0.4)
    corrected = correct(batch, trainer.logprobs(batch), cap=1.2)
    assert 0.1 < corrected.metrics["importance_capped"] < 0.5
    trainer.update(corrected.batch, 0)
    got = gradients(policy)

    policy.model.zero_grad()
    rewards, total = batch.rewards.sum(1), torch.zeros((), dtype=torch.float64)
    for row in range(len(batch)):
        peers = rewards[batch.group_ids == batch.group_ids[row]]
        score = float((rewards[row] - peers.mean()) / (peers.std(unbiased=False) + 1e-8))
        score = score if peers.std(unbiased=False) else 0.0
        ids = batch.input_ids[row, : int(batch.lengths[row])][None]

        def every(ids: torch.Tensor = ids) -> torch.Tensor:
            logits = policy.model(input_ids=ids).logits[0].double()
            return torch.log_softmax(logits / trainer.options.temperature, dim=-1)

        own = every()
        with torch.no_grad(), policy.reference():
            base = every()
        places = batch.action_mask[row].nonzero()[:, 0].tolist()
        for t in places:
            logprob = own[t - 1, ids[0, t]]
            weight = min(1.2, math.exp(logprob.item() - batch.old_logprobs[row, t].item()))
            # On the policy the algorithm's ratio is 1: the surrogate's gradient is A grad log pi.
            gap = base[t - 1, ids[0, t]] - logprob
            loss = -weight * score * logprob + 0.3 * (gap.exp() - gap - 1)
            total = total + loss / len(places) / len(batch)
    total.backward()
    expected = gradients(policy)
    assert expected.abs().max() > 1e-3
    assert (got - expected).norm() < 1e-4 * expected.norm()


def test_an_exact_sampler_is_left_as_it_is() -> None:
    """With the policy's own log-probabilities every weight is 1 and the update the same."""
    policy = builds.build_policy(b_std=0.1)
    trainer, batch = still(policy, GRPO), sampled(policy)
    trainer.update(batch, 0)
    plain = gradients(policy)
    corrected = correct(batch, trainer.logprobs(batch), cap=2.0)
    trainer.update(corrected.batch, 0)
    assert corrected.metrics == pytest.approx(
        {"sampler_mismatch": 0.0, "importance_capped": 0.0}, abs=1e-6
    )
    assert (gradients(policy) - plain).norm() < 1e-5 * plain.norm()


def test_what_a_clip_removes_is_weighted_too() -> None:
    """SORL's C is the gradient of per_token - unclipped: twice the weights, twice ||C||."""
    policy = builds.build_policy(b_std=0.1)
    algorithm = so_grpo.build(so_grpo.Config())
    trainer, batch = still(policy, algorithm), sampled(policy, spread=0.5)
    norms = []
    for weight in (1.0, 2.0):
        weights = torch.where(batch.action_mask, weight, 0.0)
        norms.append(trainer.update(replace(batch, corrections=weights), 0)["clip_norm"])
    assert norms[0] > 1e-3 and norms[1] == pytest.approx(2 * norms[0], rel=1e-5)


def test_terms_without_a_clip_stay_so() -> None:
    terms = Terms(torch.tensor([[2.0, 3.0]]), torch.tensor([[False, True]]))
    weighted = terms.times(torch.tensor([[0.5, 2.0]]))
    assert weighted.per_token.tolist() == [[1.0, 6.0]] and weighted.unclipped is None
    assert weighted.clipped is terms.clipped
