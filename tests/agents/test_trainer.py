"""The trainer's gradient against plain loops over full logits, and what must not train.

T3, T14, T15 and T16 of the lessons.
"""

import copy
import math
from dataclasses import replace

import pytest
import torch

from agents.algorithms import sft
from agents.losses import Terms
from agents.penalty import Penalty
from agents.policy import SearchPolicy
from agents.trainer import Trainer
from agents.types import Batch
from tests.agents import builds
from tests.agents.training_parts import GRPO, ONE_STEP, WITH_KL, gradients, sampled, still, weights


@pytest.fixture(scope="module")
def own() -> SearchPolicy:
    """A policy whose gradients this module may write; its weights stay."""
    return builds.build_policy(b_std=0.1)


def full_logprobs(policy: SearchPolicy, batch: Batch, row: int) -> torch.Tensor:
    ids = batch.input_ids[row, : int(batch.lengths[row])]
    logits = policy.model(input_ids=ids[None]).logits[0].double()
    return torch.log_softmax(logits / ONE_STEP.temperature, dim=-1)


def oracle(policy: SearchPolicy, batch: Batch, kl_coef: float) -> tuple[torch.Tensor, dict]:
    """GRPO's loss and the reported numbers, token by token over whole sequences."""
    rewards = batch.rewards.sum(1).tolist()
    total = torch.zeros((), dtype=torch.float64)
    sums = dict.fromkeys(("clipped", "kl_old", "kl_ref", "entropy", "tokens"), 0.0)
    for i in range(len(batch)):
        peers = [
            r for r, g in zip(rewards, batch.group_ids, strict=True) if g == batch.group_ids[i]
        ]
        mean = sum(peers) / len(peers)
        std = math.sqrt(sum((r - mean) ** 2 for r in peers) / len(peers))
        score = (rewards[i] - mean) / (std + 1e-8) if std else 0.0
        every = full_logprobs(policy, batch, i)
        with torch.no_grad(), policy.reference():
            base = full_logprobs(policy, batch, i)
        places = batch.action_mask[i].nonzero()[:, 0].tolist()
        for t in places:
            logprob = every[t - 1, batch.input_ids[i, t]]
            w = torch.exp(logprob - batch.old_logprobs[i, t].double())
            bounded = w.clamp(0.8, 1.2)
            gap = base[t - 1, batch.input_ids[i, t]] - logprob
            kl_ref = gap.exp() - gap - 1
            loss = -torch.minimum(w * score, bounded * score) + kl_coef * kl_ref
            total = total + loss / len(places) / len(batch)
            back = -torch.log(w).item()
            sums["clipped"] += (bounded * score < w * score).item()
            # KL(old || new) under samples of old: log-ratio new - old.
            sums["kl_old"] += math.exp(-back) + back - 1
            sums["kl_ref"] += kl_ref.item()
            sums["entropy"] -= (every[t - 1].exp() * every[t - 1]).sum().item()
            sums["tokens"] += 1
    return total, sums


@pytest.mark.parametrize("kl_coef", [0.0, 0.3])
def test_t16_an_optimiser_steps_gradient_and_metrics_equal_plain_loops(own, kl_coef) -> None:
    batch = sampled(own, spread=0.3)
    algorithm = replace(GRPO, zero_advantage_is_inert=False)
    metrics = still(own, algorithm, penalty=Penalty(kl=kl_coef)).update(batch, 0)
    got = gradients(own)
    own.model.zero_grad()
    loss, sums = oracle(own, batch, kl_coef)
    loss.backward()
    expected = gradients(own)
    assert expected.abs().max() > 1e-3
    assert (got - expected).norm() < 1e-4 * expected.norm()
    tokens = sums["tokens"]
    assert metrics["policy_loss"] == pytest.approx(loss.item(), rel=1e-4, abs=1e-6)
    assert sums["clipped"] > 10
    assert metrics["clip_fraction"] == pytest.approx(sums["clipped"] / tokens)
    assert metrics["kl_old"] == pytest.approx(sums["kl_old"] / tokens, rel=1e-3)
    assert metrics["kl_ref"] == pytest.approx(sums["kl_ref"] / tokens if kl_coef else 0.0, rel=1e-3)
    assert metrics["entropy"] == pytest.approx(sums["entropy"] / tokens, rel=1e-4)
    assert metrics["grad_norm"] == pytest.approx(expected.norm().item(), rel=1e-4)
    assert metrics["trained_tokens"] == int(batch.attention_mask.sum())
    assert metrics["optimizer_steps"] == 1


def test_on_policy_the_numbers_say_so(own) -> None:
    metrics = still(own, GRPO).update(sampled(own), 0)
    assert metrics["clip_fraction"] == 0
    assert metrics["kl_old"] == pytest.approx(0.0, abs=1e-7)


def test_leaving_out_inert_rows_changes_no_gradient(own) -> None:
    """Groups of equal rewards cost no forward pass, and weigh as much as if they had one."""
    batch = sampled(own, spread=0.3)
    rewards = batch.rewards.clone()
    rewards[:4] = 0
    batch = replace(batch, rewards=rewards)
    quick = still(own, GRPO).update(batch, 0)
    got = gradients(own)
    slow = still(own, replace(GRPO, zero_advantage_is_inert=False)).update(batch, 0)
    assert (got - gradients(own)).norm() < 1e-5 * got.norm()
    assert quick["trained_tokens"] < slow["trained_tokens"]
    assert quick["policy_loss"] == pytest.approx(slow["policy_loss"], abs=1e-7)
    assert quick["clip_fraction"] == pytest.approx(slow["clip_fraction"])


class Noisy(SearchPolicy):
    """Writes garbage where nothing was sampled."""

    garbage = math.nan

    def logprobs(self, input_ids, action_mask, temperature, entropy_gradient=False):
        logprobs, entropy = super().logprobs(input_ids, action_mask, temperature, entropy_gradient)
        noise = torch.full_like(logprobs, self.garbage)
        # Differentiable garbage: a gradient that gets through would reach the adapters.
        adapter = next(p for n, p in self.model.named_parameters() if "lora_A" in n)
        return torch.where(action_mask, logprobs, noise + adapter.sum()), entropy


@pytest.mark.parametrize("garbage", [math.nan, math.inf, 1e30])
@pytest.mark.parametrize(
    ("algorithm", "penalty"), [(GRPO, None), (GRPO, WITH_KL), (sft.build(sft.Config()), None)]
)
def test_t3_garbage_at_observations_changes_nothing(own, algorithm, penalty, garbage) -> None:
    batch = sampled(own, spread=0.3)
    expected = still(own, algorithm, penalty=penalty).update(batch, 0)
    clean = gradients(own)
    noisy = copy.copy(own)
    noisy.__class__ = Noisy
    noisy.garbage = garbage
    again = still(noisy, algorithm, penalty=penalty).update(batch, 0)
    assert again == pytest.approx(expected, abs=0, rel=0, nan_ok=True)
    assert torch.equal(gradients(own), clean)


def test_t3_what_an_algorithm_leaves_off_the_mask_changes_nothing(own) -> None:
    """Only action tokens count: an algorithm need not clean up after itself."""
    batch = sampled(own, spread=0.3)
    expected = still(own, GRPO).update(batch, 0)
    clean = gradients(own)

    def loss(logprobs, part, advantages) -> Terms:
        terms = GRPO.loss(logprobs, part, advantages)
        mask = part.action_mask
        garbage = torch.full_like(logprobs, math.nan) + logprobs
        return Terms(torch.where(mask, terms.per_token, garbage), terms.clipped | ~mask)

    assert still(own, replace(GRPO, loss=loss)).update(batch, 0) == expected
    assert torch.equal(gradients(own), clean)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_t14_equal_rewards_train_nothing(decay) -> None:
    policy = builds.build_policy(b_std=0.1)
    batch = sampled(policy)
    batch = replace(batch, rewards=torch.full_like(batch.rewards, 0.7))
    lengths = batch.turn_ids.max(1).values + 1
    # Equal sums need equal numbers of turns: only the first turn is paid.
    batch.rewards[:, 1:] = 0
    assert len(set(lengths.tolist())) > 1
    before = weights(policy)
    optimizer = torch.optim.AdamW(policy.trainable_parameters(), lr=0.1, weight_decay=decay)
    metrics = Trainer(policy, GRPO, optimizer, ONE_STEP).update(batch, 0)
    assert torch.equal(weights(policy), before)
    assert metrics["grad_norm"] == metrics["policy_loss"] == metrics["clip_fraction"] == 0
    # No row had a forward pass: an entropy of 0 would read as a collapse.
    assert all(math.isnan(metrics[name]) for name in ("entropy", "kl_old", "kl_ref"))


def test_t14_groups_of_one_train_nothing() -> None:
    policy = builds.build_policy(b_std=0.1)
    batch = replace(sampled(policy), group_ids=torch.arange(12))
    before = weights(policy)
    optimizer = torch.optim.AdamW(policy.trainable_parameters(), lr=0.1)
    Trainer(policy, GRPO, optimizer, ONE_STEP).update(batch, 0)
    assert torch.equal(weights(policy), before)


def test_with_a_kl_term_rows_without_advantage_train(own) -> None:
    batch = sampled(own)
    batch = replace(batch, rewards=torch.zeros_like(batch.rewards))
    metrics = still(own, GRPO, penalty=WITH_KL).update(batch, 0)
    assert gradients(own).abs().max() > 1e-4 and metrics["kl_ref"] > 1e-3


def test_t15_rows_without_action_tokens(own) -> None:
    batch = sampled(own, spread=0.3)
    mask = batch.action_mask.clone()
    mask[::3] = False
    some = replace(batch, action_mask=mask)
    metrics = still(own, sft.build(sft.Config())).update(some, 0)
    assert all(math.isfinite(value) for value in metrics.values()) and metrics["policy_loss"] > 0
    none = replace(batch, action_mask=torch.zeros_like(mask))
    metrics = still(own, sft.build(sft.Config())).update(none, 0)
    assert metrics["policy_loss"] == metrics["grad_norm"] == 0
