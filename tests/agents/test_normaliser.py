"""SORL's normaliser in the trainer: C over a whole optimiser step, and what its factor scales."""

import copy
from dataclasses import replace

import pytest
import torch

from agents.algorithms import grpo, so_grpo, so_ppo
from agents.normaliser import WINDOW, TypicalNorm
from agents.policy import SearchPolicy
from agents.trainer import StepOptions, Trainer
from tests.agents import builds
from tests.agents.training_parts import ONE_STEP, gradients, sampled, still, weights


@pytest.fixture(scope="module")
def own() -> SearchPolicy:
    """A policy whose gradients this module may write; its weights stay."""
    return builds.build_policy(b_std=0.1)


def so(**options):
    return so_grpo.build(so_grpo.Config(**options))


def test_p7_c_is_the_unclipped_gradient_less_the_clipped_one_through_the_model(own) -> None:
    """||C|| as logged against ||G - grad J|| from two separate updates, clipped and not."""
    batch = sampled(own, spread=0.5)
    metrics = still(own, so(rule="max1")).update(batch, 0)
    assert metrics["clip_fraction"] > 0.05
    still(own, grpo.build(grpo.Config())).update(batch, 0)
    clipped = gradients(own)
    # Without a clip: a band that nothing leaves.
    still(own, grpo.build(grpo.Config(clip_low=1e9, clip_high=1e9))).update(batch, 0)
    removed = gradients(own) - clipped
    assert metrics["clip_norm"] == pytest.approx(removed.norm().item(), rel=1e-4)
    assert metrics["grad_norm"] == pytest.approx(clipped.norm().item(), rel=1e-5)


@pytest.mark.parametrize("rule", ["literal", "max1", "smooth"])
@pytest.mark.parametrize("power", [1, 2])
def test_the_gradient_is_the_bases_times_the_factor(own, rule, power) -> None:
    batch = sampled(own, spread=0.5)
    still(own, grpo.build(grpo.Config())).update(batch, 0)
    base = gradients(own)
    metrics = still(own, so(rule=rule, power=power, apply_to="gradient")).update(batch, 0)
    norm, removed = base.norm().item(), metrics["clip_norm"]
    factor = {
        "literal": 1 / removed**power,
        "max1": 1 / max(1, removed) ** power,
        # The first step's median norm is its own.
        "smooth": (norm / (norm + removed)) ** power,
    }[rule]
    assert metrics["grad_scale"] == pytest.approx(factor, rel=1e-4)
    assert (gradients(own) - factor * base).norm() < 1e-4 * factor * base.norm()


@pytest.mark.parametrize("microbatch_tokens", [1, 90, 10**6])
def test_p4_c_is_the_same_for_any_micro_batch(own, microbatch_tokens) -> None:
    batch = sampled(own, spread=0.5)
    whole = still(own, so()).update(batch, 0)
    options = replace(ONE_STEP, microbatch_tokens=microbatch_tokens)
    parts = still(own, so(), options).update(batch, 0)
    assert parts["clip_norm"] == pytest.approx(whole["clip_norm"], rel=1e-4)


def test_p2_on_policy_sorl_is_its_base(own) -> None:
    """One step per rollout batch: w = 1, C = 0, factor 1."""
    batch = sampled(own)
    still(own, grpo.build(grpo.Config())).update(batch, 0)
    base = gradients(own)
    metrics = still(own, so(rule="literal")).update(batch, 0)
    assert metrics["clip_norm"] == 0.0 and metrics["grad_scale"] == 1.0
    assert torch.equal(gradients(own), base)


def step_of(algorithm, optimizer_kind, **options) -> tuple[torch.Tensor, dict[str, float]]:
    policy = builds.build_policy(b_std=0.1)
    batch = sampled(policy, spread=0.5)
    before = weights(policy)
    optimizer = optimizer_kind(policy.trainable_parameters(), lr=1e-3)
    trainer = Trainer(policy, algorithm, optimizer, replace(ONE_STEP, **options))
    metrics = trainer.update(batch, 0)
    assert optimizer.param_groups[0]["lr"] == 1e-3
    return weights(policy) - before, metrics


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("apply_to", ["gradient", "step"])
def test_a_scaled_step_moves_that_much_and_adam_undoes_a_scaled_gradient(kind, apply_to) -> None:
    plain, _ = step_of(grpo.build(grpo.Config()), kind)
    scaled, metrics = step_of(so(apply_to=apply_to), kind)
    undone = kind is torch.optim.AdamW and apply_to == "gradient"
    factor = 1.0 if undone else metrics["grad_scale"]
    assert metrics["grad_scale"] < 0.9
    # Adam's epsilon and weight decay: 1 %.
    assert (scaled - factor * plain).norm() < 0.01 * (factor * plain).norm()


def test_the_factor_comes_before_the_global_norm_clip() -> None:
    """A step within the limit after scaling is not clipped, although it was beyond it before."""
    algorithm = so(apply_to="gradient")
    free, metrics = step_of(algorithm, torch.optim.SGD)
    limit = 1.01 * metrics["grad_norm"] * metrics["grad_scale"]
    assert limit < metrics["grad_norm"]
    bounded, _ = step_of(algorithm, torch.optim.SGD, max_grad_norm=limit)
    assert torch.equal(free, bounded)


def test_the_critics_gradient_is_not_scaled() -> None:
    policy = builds.build_policy(b_std=0.1)
    critic = builds.build_critic(policy)
    batch = sampled(policy, spread=0.5)
    found = []
    for options in ({"rule": "literal", "power": 2}, {"rule": "smooth"}):
        algorithm = so_ppo.build(so_ppo.Config(clip_low=0.01, clip_high=0.01, **options))
        groups = [{"params": policy.trainable_parameters()}, {"params": critic.parameters()}]
        optimizer = torch.optim.SGD(groups, lr=0.0)
        metrics = Trainer(policy, algorithm, optimizer, ONE_STEP, None, critic).update(batch, 0)
        grads = torch.cat([p.grad.flatten() for p in critic.parameters()])
        found.append((metrics["grad_scale"], metrics["value_loss"], grads))
    assert found[0][0] != pytest.approx(found[1][0], rel=0.1)
    assert found[0][1] == found[1][1] > 0
    assert torch.equal(found[0][2], found[1][2])


def test_the_typical_norm_is_the_median_of_the_last_steps() -> None:
    typical = TypicalNorm()
    assert [typical.observe(x) for x in (4.0, 1.0, 9.0)] == [4.0, 2.5, 4.0]
    for _ in range(WINDOW):
        last = typical.observe(7.0)
    assert last == 7.0 and len(typical.norms) == WINDOW


def test_the_trainers_state_goes_on_where_it_was(own) -> None:
    batches = [sampled(own, spread=0.5, seed=seed) for seed in (1, 2, 3, 4)]
    through = still(own, so())
    numbers = [through.update(copy.copy(batch), 0)["grad_scale"] for batch in batches]
    first = still(own, so())
    for batch in batches[:3]:
        first.update(batch, 0)
    resumed = still(own, so())
    resumed.load_state(first.state())
    assert resumed.update(batches[3], 0)["grad_scale"] == numbers[3]
    assert still(own, so()).update(batches[3], 0)["grad_scale"] != numbers[3]


def test_no_second_backward_pass_where_nothing_is_clipped(own, monkeypatch) -> None:
    calls = []
    grad = torch.autograd.grad
    monkeypatch.setattr(torch.autograd, "grad", lambda *a, **k: calls.append(1) or grad(*a, **k))
    still(own, so(), StepOptions(1, 1, 60, 0.0, 0.8)).update(sampled(own), 0)
    assert not calls
    still(own, so(), StepOptions(1, 1, 60, 0.0, 0.8)).update(sampled(own, spread=0.5), 0)
    assert len(calls) > 1
