"""The critic: a second adapter on one base, values before tokens, and what PPO makes of them."""

from dataclasses import replace

import pytest
import torch

from agents.advantages import gae
from agents.algorithms import ppo
from agents.critic import Critic
from agents.policy import LoraOptions
from agents.trainer import Trainer
from retrieval.errors import InputError
from tests.agents import builds
from tests.agents.training_parts import ONE_STEP, sampled, weights


def test_one_copy_of_the_base_is_in_memory() -> None:
    """The critic adds its adapter and its head, and not one weight of the base."""
    policy = builds.build_policy()
    before = {p.data_ptr() for p in policy.model.parameters()}
    size = sum(p.numel() for p in policy.model.parameters())
    critic = Critic(policy, LoraOptions(4, 8, ("q_proj", "v_proj"), 0))
    added = [p for p in policy.model.parameters() if p.data_ptr() not in before]
    own = critic.parameters()
    assert {p.data_ptr() for p in added} == {p.data_ptr() for p in own[:-2]}
    assert sum(p.numel() for p in policy.model.parameters()) == size + sum(
        p.numel() for p in own[:-2]
    )
    # 2 layers x 2 modules x rank 4: far below the base.
    assert sum(p.numel() for p in own) < size / 20


def test_policy_critic_and_reference_do_not_see_each_other() -> None:
    policy = builds.build_policy(b_std=0.1)
    ids = torch.arange(5, 25)[None]
    with torch.no_grad():
        acting = policy.hidden(ids)
        with policy.reference():
            base = policy.hidden(ids)
        builds.build_critic(policy)
        assert torch.equal(policy.hidden(ids), acting)
        with policy.reference():
            assert torch.equal(policy.hidden(ids), base)
        with policy.adapter("critic"):
            valuing = policy.hidden(ids)
        assert torch.equal(policy.hidden(ids), acting)
    assert not torch.allclose(valuing, acting) and not torch.allclose(valuing, base)


def test_the_policys_weights_are_those_without_the_critic() -> None:
    policy = builds.build_policy()
    before = [p.data_ptr() for p in policy.trainable_parameters()]
    critic = builds.build_critic(policy)
    with policy.adapter("critic"):
        pass
    assert [p.data_ptr() for p in policy.trainable_parameters()] == before
    assert not {p.data_ptr() for p in critic.parameters()} & set(before)


def test_a_value_is_that_of_the_state_before_the_token() -> None:
    policy = builds.build_policy()
    critic = builds.build_critic(policy)
    batch = sampled(policy, rows=4)
    with torch.no_grad():
        values = critic.values(batch)
    assert not values[~batch.action_mask].any()
    for row, column in batch.action_mask.nonzero()[::5].tolist():
        with torch.no_grad(), policy.adapter("critic"):
            state = policy.hidden(batch.input_ids[row : row + 1, :column])[0, -1]
            expected = critic.head(state).item()
        assert values[row, column].item() == pytest.approx(expected, abs=1e-5)


def test_every_weight_of_the_critic_gets_its_gradient_and_none_of_the_policy() -> None:
    """peft freezes inactive adapters; a backward pass outside the context must still reach them."""
    policy = builds.build_policy(b_std=0.1)
    critic = builds.build_critic(policy)
    batch = sampled(policy, rows=4)
    critic.values(batch).square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in critic.parameters())
    assert all(p.grad is None for p in policy.trainable_parameters())
    logprobs, _ = policy.logprobs(batch.input_ids, batch.action_mask, 1.0)
    before = [p.grad.clone() for p in critic.parameters()]
    with policy.adapter("critic"):
        logprobs.sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in policy.trainable_parameters())
    assert all(torch.equal(p.grad, b) for p, b in zip(critic.parameters(), before, strict=True))


def test_before_training_every_value_is_0() -> None:
    policy = builds.build_policy()
    critic = Critic(policy, LoraOptions(4, 8, ("q_proj",), 0))
    assert not critic.values(sampled(policy, rows=4)).any()


def test_p10_gae_with_gamma_and_lambda_1_and_no_values_is_the_return() -> None:
    batch = builds.random_batch(1)
    nothing = torch.zeros_like(batch.values)
    got = gae(batch.token_rewards, nothing, batch.action_mask, 1.0, 1.0)
    # Random trajectories are paid at their last turn.
    expected = batch.returns[:, None] * batch.action_mask
    assert torch.allclose(got, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("count", [1, 3, 10])
def test_p10_more_observation_tokens_change_no_advantage(count) -> None:
    batch = builds.random_batch(2)
    place = int(batch.action_mask[0].nonzero()[0])  # just before row 0's first action

    def wider(values: torch.Tensor, fill: float) -> torch.Tensor:
        gap = torch.full((len(values), count), fill).to(values.dtype)
        return torch.cat([values[:, :place], gap, values[:, place:]], dim=1)

    def advantages(rewards, values, mask):
        return gae(rewards, values, mask, 0.9, 0.8)

    original = advantages(batch.token_rewards, batch.values, batch.action_mask)
    spread = advantages(
        wider(batch.token_rewards, 0), wider(batch.values, 5), wider(batch.action_mask, 0)
    )
    assert torch.equal(torch.cat([spread[:, :place], spread[:, place + count :]], 1), original)


def test_gae_by_hand() -> None:
    # gamma 0.5, lambda 0.5; values 1, 2 | 3, an observation between; reward 4 at the end.
    mask = torch.tensor([[True, True, False, True]])
    rewards = torch.tensor([[0.0, 0.0, 9.0, 4.0]]).double() * mask
    values = torch.tensor([[1.0, 2.0, 7.0, 3.0]]).double()
    # delta_3 = 4 - 3 = 1; delta_2 = 1.5 - 2 = -0.5; delta_1 = 1 - 1 = 0.
    # A_3 = 1; A_2 = -0.5 + 0.25 = -0.25; A_1 = 0 - 0.0625.
    assert gae(rewards, values, mask, 0.5, 0.5).tolist() == [[-0.0625, -0.25, 0.0, 1.0]]


def test_the_critic_learns_the_returns() -> None:
    """Values of one batch approach its targets, and the policy's weights stay (lr 0)."""
    policy = builds.build_policy(b_std=0.1)
    critic = Critic(policy, LoraOptions(8, 16, ("q_proj", "v_proj", "up_proj"), 0))
    batch = sampled(policy)
    groups = [
        {"params": policy.trainable_parameters(), "lr": 0.0},
        {"params": critic.parameters(), "lr": 1e-2},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.0)
    algorithm = ppo.build(ppo.Config())
    before = weights(policy)
    trainer = Trainer(policy, algorithm, optimizer, ONE_STEP, None, critic)
    losses = [trainer.update(batch, step)["value_loss"] for step in range(30)]
    # At 0 every value: half the mean square of the returns.
    square = (batch.returns.square()[:, None] * batch.action_mask).sum() / batch.action_mask.sum()
    assert losses[0] == pytest.approx(square.item() / 2, rel=1e-4)
    assert losses[-1] < losses[0] / 4
    assert torch.equal(weights(policy), before)


def test_ppo_without_a_critic_is_refused() -> None:
    policy = builds.build_policy()
    optimizer = torch.optim.SGD(policy.trainable_parameters(), lr=0.0)
    with pytest.raises(InputError, match="has a value function; give the trainer a critic"):
        Trainer(policy, ppo.build(ppo.Config()), optimizer, ONE_STEP)


def test_whitened_advantages_have_mean_0_and_variance_1_over_all_action_tokens() -> None:
    batch = builds.random_batch(3)
    got = ppo.build(ppo.Config(whiten_eps=0.0)).advantage(batch)[batch.action_mask]
    assert got.mean().item() == pytest.approx(0, abs=1e-12)
    assert got.square().mean().item() == pytest.approx(1, rel=1e-9)
    raw = ppo.build(ppo.Config(whiten=False))
    assert raw.value is not None
    targets = raw.value.targets(batch)
    expected = raw.advantage(batch) + batch.values
    assert torch.equal(targets[batch.action_mask], expected[batch.action_mask])
    lower = replace(batch, values=torch.zeros_like(batch.values))
    assert not torch.equal(raw.advantage(lower), raw.advantage(batch))
