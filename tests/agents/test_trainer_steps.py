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
