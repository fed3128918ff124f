"""KL in the loss and in the reward, the adaptive coefficient, and the entropy bonus."""

from dataclasses import replace

import pytest
import torch

from agents.losses import kl
from agents.penalties import entropy, none
from agents.penalties import kl as kl_plug_in
from agents.penalty import Penalty
from agents.policy import SearchPolicy
from retrieval.errors import InputError
from tests.agents import builds
from tests.agents.training_parts import GRPO, ONE_STEP, gradients, sampled, still


@pytest.fixture(scope="module")
def own() -> SearchPolicy:
    """A policy whose gradients this module may write; its weights stay."""
    return builds.build_policy(b_std=0.1)


def reference(policy: SearchPolicy, batch) -> torch.Tensor:
    with torch.no_grad(), policy.reference():
        return policy.logprobs(batch.input_ids, batch.action_mask, ONE_STEP.temperature)[0]


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_in_the_loss_it_adds_its_own_gradient(own, estimator) -> None:
    batch = sampled(own, spread=0.3)
    still(own, GRPO).update(batch, 0)
    plain = gradients(own)
    trainer = still(own, GRPO, penalty=Penalty(kl=0.3, estimator=estimator))
    trainer.update(batch, 0)
    added = gradients(own) - plain
    own.model.zero_grad()
    logprobs, _ = own.logprobs(batch.input_ids, batch.action_mask, ONE_STEP.temperature)
    cost = kl(estimator, logprobs, reference(own, batch), batch.action_mask)
    (0.3 * cost * GRPO.weights(batch.action_mask)).sum().backward()
    assert gradients(own).norm() > 1e-3
    assert (added - gradients(own)).norm() < 1e-4 * gradients(own).norm()


def test_in_the_reward_it_changes_the_returns_and_nothing_else(own) -> None:
    batch = sampled(own, spread=0.3)
    still(own, GRPO, penalty=Penalty(kl=0.3, estimator="k1", place="reward")).update(batch, 0)
    got = gradients(own)
    # By hand: log pi_old - log pi_ref at each action token, off the trajectory's reward.
    gap = (batch.old_logprobs - reference(own, batch)) * batch.action_mask
    rewards = batch.rewards.clone()
    rewards[:, 0] -= 0.3 * gap.sum(1)
    still(own, GRPO).update(replace(batch, rewards=rewards), 0)
    assert (got - gradients(own)).norm() < 1e-4 * got.norm()
    still(own, GRPO).update(batch, 0)
    assert (got - gradients(own)).norm() > 0.1 * got.norm()


def test_the_entropy_bonus_adds_its_own_gradient(own) -> None:
    batch = sampled(own, spread=0.3)
    still(own, GRPO).update(batch, 0)
    plain = gradients(own)
    still(own, GRPO, penalty=Penalty(entropy=0.2)).update(batch, 0)
    added = gradients(own) - plain
    own.model.zero_grad()
    total = torch.zeros(())
    for row in range(len(batch)):
        length = int(batch.lengths[row])
        logits = own.model(input_ids=batch.input_ids[row : row + 1, :length]).logits[0]
        every = (logits / ONE_STEP.temperature).log_softmax(-1)
        bits = -(every.exp() * every).sum(-1)
        places = batch.action_mask[row].nonzero()[:, 0]
        total = total + bits[places - 1].mean() / len(batch)
    (-0.2 * total).backward()
    assert gradients(own).norm() > 1e-3
    assert (added - gradients(own)).norm() < 1e-3 * gradients(own).norm()


def test_rows_without_advantage_are_read_only_if_the_loss_is_shaped(own) -> None:
    batch = sampled(own)
    batch = replace(batch, rewards=torch.zeros_like(batch.rewards))
    for penalty, trained in (
        (Penalty(), False),
        (Penalty(kl=0.1), True),
        (Penalty(entropy=0.1), True),
    ):
        metrics = still(own, GRPO, penalty=penalty).update(batch, 0)
        assert bool(metrics["trained_tokens"]) is trained


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (0.1, 0.5),  # on target
        (0.105, 0.5 * (1 + 0.05 * 64 / 1000)),
        (9.0, 0.5 * (1 + 0.2 * 64 / 1000)),  # the error is bounded
        (0.0, 0.5 * (1 - 0.2 * 64 / 1000)),
    ],
)
def test_the_adaptive_coefficient_by_hand(measured, expected) -> None:
    penalty = Penalty(kl=0.5, target=0.1, horizon=1000)
    assert penalty.steered(0.5, measured, 64) == pytest.approx(expected)
    assert replace(penalty, target=None).steered(0.5, measured, 64) == 0.5


def test_the_trainer_steers_and_reports_the_coefficient_it_used(own) -> None:
    batch = sampled(own, spread=0.3)
    penalty = Penalty(kl=0.5, target=1e-6, horizon=100)
    trainer = still(own, GRPO, penalty=penalty)
    assert trainer.update(batch, 0)["kl_coef"] == 0.5
    grown = 0.5 * (1 + 0.2 * 12 / 100)
    assert trainer.update(batch, 0)["kl_coef"] == pytest.approx(grown)
    resumed = still(own, GRPO, penalty=penalty)
    resumed.load_state(trainer.state())
    assert resumed.update(batch, 0)["kl_coef"] == trainer.update(batch, 0)["kl_coef"]


def test_the_plug_ins_build_what_they_say() -> None:
    assert none.build(none.Config()) == Penalty()
    assert entropy.build(entropy.Config(coef=0.02)) == Penalty(entropy=0.02)
    options = {"estimator": "k1", "place": "reward", "target": 0.1, "horizon": 7, "entropy": 0.3}
    built = kl_plug_in.build(kl_plug_in.Config(coef=0.5, **options))
    assert built == Penalty(kl=0.5, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coef": -0.1}, "coef is -0.1; give at least 0"),
        ({"target": 0.0}, "target is 0.0; give more than 0"),
        ({"horizon": 0}, "horizon is 0; give at least 1"),
        ({"estimator": "k4"}, "estimator is 'k4'; choose one of k1, k2, k3"),
        ({"place": "nowhere"}, "place is 'nowhere'; choose one of loss, reward"),
    ],
)
def test_settings_out_of_range_are_refused(options, message) -> None:
    with pytest.raises(InputError, match=f"^{message}$"):
        kl_plug_in.Config(**options)
