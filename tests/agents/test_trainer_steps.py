"""Rows into optimiser steps, and what steps leave alone: T7 and T19 of the lessons."""

import hashlib
import math
from dataclasses import replace

import pytest
import torch

from agents.algorithm import Algorithm
from agents.batching import to_batch
from agents.generation.hf import HFEngine
from agents.policy import SearchPolicy
from agents.trainer import Trainer
from retrieval import plugins
from tests.agents import builds
from tests.agents.training_parts import GRPO, ONE_STEP, WITH_KL, sampled, still, weights


@pytest.fixture(scope="module")
def own() -> SearchPolicy:
    """A policy whose gradients this module may write; its weights stay."""
    return builds.build_policy(b_std=0.1)


def spy(algorithm: Algorithm, seen: list) -> Algorithm:
    """The algorithm, keeping what its loss is given."""

    def loss(logprobs, batch, advantages):
        for row in range(len(batch)):
            length = int(batch.lengths[row])
            ids = tuple(batch.input_ids[row, :length].tolist())
            score = advantages[row][batch.action_mask[row]].unique().tolist()
            seen.append((ids, int(batch.group_ids[row]), score))
        return algorithm.loss(logprobs, batch, advantages)

    return replace(algorithm, loss=loss, zero_advantage_is_inert=False)


@pytest.mark.parametrize(
    ("rows", "minibatches", "sizes"),
    [(12, 3, [4, 4, 4]), (5, 4, [2, 1, 1, 1]), (9, 8, [2] + [1] * 7), (3, 8, [1, 1, 1])],
)
def test_every_epoch_has_that_many_steps_of_even_sizes(own, rows, minibatches, sizes) -> None:
    """`minibatches` is the number of optimiser steps per pass, unless there are fewer rows."""
    trainer = still(own, GRPO, replace(ONE_STEP, epochs=2, minibatches=minibatches))
    chunks = [len(chunk) for chunk in trainer._minibatches(rows, seed=3)]
    assert chunks == sizes * 2


def test_t19_every_row_trains_once_an_epoch_with_its_own_group_and_advantage(own) -> None:
    batch = sampled(own, rows=10)
    seen: list = []
    options = replace(ONE_STEP, epochs=2, minibatches=3, microbatch_tokens=60)
    metrics = still(own, spy(GRPO, seen), options).update(batch, seed=1)
    scores = GRPO.advantage(batch)
    expected = sorted(
        (
            tuple(batch.input_ids[row, : int(batch.lengths[row])].tolist()),
            int(batch.group_ids[row]),
            # Of the whole batch: a minibatch holds no whole groups.
            scores[row][batch.action_mask[row]].unique().tolist(),
        )
        for row in range(10)
    )
    assert metrics["optimizer_steps"] == 6
    assert sorted(seen[:10]) == expected and sorted(seen[10:]) == expected
    assert [s[0] for s in seen[:10]] != [s[0] for s in seen[10:]]


def test_the_second_epoch_is_off_policy() -> None:
    policy = builds.build_policy(b_std=0.1)
    optimizer = torch.optim.SGD(policy.trainable_parameters(), lr=1.0)
    metrics = Trainer(policy, GRPO, optimizer, replace(ONE_STEP, epochs=3)).update(
        sampled(policy), 0
    )
    assert metrics["kl_old"] > 1e-4


@pytest.mark.parametrize("limit", [0.0, 1e-3, 1e3])
def test_the_gradient_norm_is_clipped_and_reported_unclipped(limit) -> None:
    policy = builds.build_policy(b_std=0.1)
    before = weights(policy)
    optimizer = torch.optim.SGD(policy.trainable_parameters(), lr=1.0)
    options = replace(ONE_STEP, max_grad_norm=limit)
    metrics = Trainer(policy, GRPO, optimizer, options).update(sampled(policy), 0)
    norm = metrics["grad_norm"]
    step = (weights(policy) - before).norm().item()
    assert norm > 0.01
    assert step == pytest.approx(min(norm, limit or math.inf), rel=1e-3)


def test_the_same_seed_gives_the_same_weights() -> None:
    results = []
    for seed in (1, 1, 2):
        policy = builds.build_policy(b_std=0.1)
        optimizer = torch.optim.AdamW(policy.trainable_parameters(), lr=1e-2)
        options = replace(ONE_STEP, minibatches=3)
        Trainer(policy, GRPO, optimizer, options).update(sampled(policy), seed)
        results.append(weights(policy))
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])


def base_digest(policy: SearchPolicy) -> str:
    value = hashlib.sha256()
    for name, parameter in sorted(policy.base_state().items()):
        value.update(name.encode() + parameter.detach().numpy().tobytes())
    return value.hexdigest()


def test_t7_rollouts_and_updates_leave_the_base_bit_identical() -> None:
    policy = builds.build_policy(b_std=0.1)
    before, adapters = base_digest(policy), weights(policy)
    ids = torch.arange(2, 30)[None]
    with torch.no_grad(), policy.reference():
        reference = policy.hidden(ids)
    optimizer = torch.optim.AdamW(policy.trainable_parameters(), lr=1e-2, weight_decay=0.1)
    trainer = Trainer(policy, GRPO, optimizer, ONE_STEP, WITH_KL)
    rollout = builds.build_rollout(HFEngine(policy), policy, max_turns=2)
    first = None
    for step in range(3):
        played = rollout.play(builds.world().questions[:2], 4, builds.sampling(seed=9))
        first = first or played
        batch = to_batch(played, policy.pad_id)
        batch.rewards[::2, 0] = 1.0
        trainer.update(batch, step)
    assert base_digest(policy) == before and not torch.equal(weights(policy), adapters)
    with torch.no_grad(), policy.reference():
        assert torch.equal(policy.hidden(ids), reference)
    # The engine samples from the trained weights at once: nothing has to be synchronised.
    assert [t.turns for t in played] != [t.turns for t in first]


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["grpo", "so_grpo"])
def test_a_gradient_that_is_not_finite_is_not_applied(name: str, value: float) -> None:
    """One bad token of one row spoils its minibatch, which is skipped; the others are applied."""
    policy = builds.build_policy(b_std=0.1)
    module = plugins.load("agents.algorithms", name)
    plain = module.build(module.Config())
    bad_row = tuple(sampled(policy).input_ids[5].tolist())

    def loss(logprobs, batch, advantages):
        terms = plain.loss(logprobs, batch, advantages)
        width = batch.input_ids.shape[1]
        bad = (batch.input_ids == torch.tensor(bad_row[:width])).all(1)
        factor = torch.where(bad, value, 1.0)[:, None]
        return replace(terms, per_token=terms.per_token * factor)

    algorithm = replace(plain, loss=loss, zero_advantage_is_inert=False)
    optimizer = torch.optim.AdamW(policy.trainable_parameters(), lr=1e-2)
    trainer = Trainer(policy, algorithm, optimizer, replace(ONE_STEP, minibatches=12))
    applied = []
    optimizer.register_step_post_hook(lambda *_: applied.append(weights(policy)))
    metrics = trainer.update(sampled(policy), seed=0)
    assert (metrics["optimizer_steps"], metrics["skipped_steps"]) == (12, 1)
    assert len(applied) == 11 and all(bool(now.isfinite().all()) for now in applied)
    assert torch.equal(weights(policy), applied[-1])
    assert not math.isfinite(metrics["policy_loss"]) and metrics["nonfinite_weights"] == 0
    # What later updates depend on has not taken it in either.
    moments = [v for state in optimizer.state.values() for v in state.values()]
    assert all(bool(moment.isfinite().all()) for moment in moments)
    assert all(math.isfinite(norm) for norm in trainer.state()["gradient_norms"])


@pytest.mark.parametrize("broken", [0, 2])
def test_weights_that_are_not_finite_are_counted(broken: int) -> None:
    policy = builds.build_policy(b_std=0.1)
    optimizer = torch.optim.SGD(policy.trainable_parameters(), lr=1.0)
    values = (math.nan, math.inf)

    @torch.no_grad()
    def overflow(*_: object) -> None:
        for parameter, value in zip(policy.trainable_parameters(), values[:broken], strict=False):
            parameter.flatten()[3] = value

    optimizer.register_step_post_hook(overflow)
    metrics = Trainer(policy, GRPO, optimizer, ONE_STEP).update(sampled(policy), 0)
    assert metrics["nonfinite_weights"] == broken


def test_the_tail_of_the_ratio_is_counted_token_by_token() -> None:
    """Off-policy by noise of standard deviation 1: who moved by more than 1 nat stands there."""
    policy = builds.build_policy(b_std=0.1)
    near, far = sampled(policy), sampled(policy, spread=1.0)
    moved = (near.old_logprobs - far.old_logprobs).abs()[near.action_mask]
    share = float((moved > 1).double().mean())
    assert 0.2 < share < 0.45  # 0.317 of a normal distribution
    algorithm = replace(GRPO, zero_advantage_is_inert=False)
    assert still(policy, algorithm).update(far, 0)["ratio_tail"] == pytest.approx(share, abs=1e-9)
    assert still(policy, algorithm).update(near, 0)["ratio_tail"] == 0.0
