"""What every algorithm in `agents/algorithms/` owes the trainer; a new file is found by itself.

The numbers are those of section 5 of the design's algorithms page. Batches are float64 and ragged:
several turns, rows of different lengths, whole groups, rewards at the last turn.
"""

import dataclasses
import math
from dataclasses import replace

import pytest
import torch

from agents.algorithm import Algorithm, Loss
from agents.batching import to_batch
from agents.losses import Terms
from agents.trainer import StepOptions, Trainer
from agents.types import Batch
from retrieval import plugins
from retrieval.errors import InputError
from tests.agents import builds

NAMES = plugins.names("agents.algorithms")


@pytest.fixture(params=NAMES)
def algorithm(request: pytest.FixtureRequest) -> Algorithm:
    return build(request.param)


def build(name: str) -> Algorithm:
    module = plugins.load("agents.algorithms", name)
    return module.build(module.Config())


def random_batch(seed: int = 0, rows: int = 12) -> Batch:
    """Float64, with random old and reference log-probabilities, values and penalties."""
    batch = builds.random_batch(seed, rows)
    return replace(batch, penalties=0.01 * (batch.ref_logprobs - batch.old_logprobs))


def near(batch: Batch, spread: float, seed: int = 5) -> torch.Tensor:
    """Log-probabilities of a policy so far from the one that sampled (T3: 0 off the mask)."""
    noise = torch.randn(batch.old_logprobs.shape, generator=torch.Generator().manual_seed(seed))
    return (batch.old_logprobs + spread * noise * batch.action_mask).requires_grad_()


def gradient(
    algorithm: Algorithm, batch: Batch, logprobs: torch.Tensor
) -> tuple[float, torch.Tensor]:
    """The objective and its derivative in the log-probabilities, as the trainer forms them."""
    logprobs = logprobs.detach().requires_grad_()
    terms = terms_of(algorithm, batch, logprobs)
    loss = total(terms.per_token, algorithm, batch)
    (result,) = torch.autograd.grad(loss, logprobs)
    return loss.item(), result


def terms_of(algorithm: Algorithm, batch: Batch, logprobs: torch.Tensor) -> Terms:
    """The loss of an optimiser step over the whole batch."""
    advantages = algorithm.advantage(batch)
    return step_loss(algorithm, batch, logprobs, advantages)(logprobs, batch, advantages)


def step_loss(
    algorithm: Algorithm, batch: Batch, logprobs: torch.Tensor, advantages: torch.Tensor
) -> Loss:
    if algorithm.adapt is None:
        return algorithm.loss
    return algorithm.adapt(logprobs.detach(), batch, advantages)


def total(per_token: torch.Tensor, algorithm: Algorithm, batch: Batch) -> torch.Tensor:
    weighted = per_token * algorithm.weights(batch.action_mask)
    return torch.where(batch.action_mask, weighted, torch.zeros_like(weighted)).sum()


def compares_rewards(algorithm: Algorithm, batch: Batch) -> bool:
    """False for imitation: its advantages are never negative, whatever the rewards are."""
    other = replace(batch, rewards=batch.rewards.flip(0) + torch.arange(len(batch))[:, None])
    return bool((algorithm.advantage(batch) < 0).any() or (algorithm.advantage(other) < 0).any())


def test_the_folder_is_the_registry() -> None:
    papers = {"ppo", "turn_ppo", "s_ppo", "so_ppo", "st_ppo", "so_grpo", "stratified_grpo"}
    relatives = {"grpo", "gspo", "dr_grpo", "dapo", "sapo", "bapo", "cispo", "gigpo", "rloo"}
    assert papers | relatives | {"reinforce_pp", "sft", "rejection_sampling"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_file_has_a_docstring_and_a_frozen_documented_config(name) -> None:
    module = plugins.load("agents.algorithms", name)
    assert len(module.__doc__.splitlines()) >= 3 and module.build.__doc__
    assert module.Config.__dataclass_params__.frozen
    for field in dataclasses.fields(module.Config()):
        assert any(f"{field.name}: " in (c.__doc__ or "") for c in module.Config.__mro__)


def test_shapes_and_finiteness(algorithm) -> None:
    batch = random_batch()
    advantages = algorithm.advantage(batch)
    terms = terms_of(algorithm, batch, near(batch, 0.3))
    weights = algorithm.weights(batch.action_mask)
    shape = batch.input_ids.shape
    assert advantages.shape == terms.per_token.shape == terms.clipped.shape == shape
    assert weights.shape == shape and terms.clipped.dtype == torch.bool
    assert not advantages.requires_grad and not weights.requires_grad
    on = batch.action_mask
    assert advantages[on].isfinite().all() and terms.per_token[on].isfinite().all()
    assert (weights[on] > 0).all() and not weights[~on].any()


@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf, 1e6])
def test_p1_t3_what_stands_off_the_mask_has_no_say(algorithm, garbage) -> None:
    """Property 1: its gradient is exactly 0, and no other gradient and no value changes."""
    batch = random_batch()
    logprobs = near(batch, 0.3).detach()
    loss, expected = gradient(algorithm, batch, logprobs)
    off = ~batch.action_mask
    assert not expected[off].any() and expected[batch.action_mask].any()
    dirty = replace(
        batch,
        # Other ids, but equal where they were equal: what was read is GiGPO's state.
        input_ids=torch.where(off, batch.input_ids + 999, batch.input_ids),
        old_logprobs=torch.where(off, garbage, batch.old_logprobs),
        ref_logprobs=torch.where(off, garbage, batch.ref_logprobs),
        values=torch.where(off, garbage, batch.values),
        penalties=torch.where(off, garbage, batch.penalties),
    )
    dirty_loss, got = gradient(algorithm, dirty, torch.where(off, garbage, logprobs))
    assert dirty_loss == loss
    assert torch.equal(got, expected)


def test_p1_padding_has_no_say(algorithm) -> None:
    batch = random_batch()
    logprobs = near(batch, 0.3).detach()
    loss, expected = gradient(algorithm, batch, logprobs)
    per_row = ("rewards", "group_ids", "strata")

    def wider(name: str, value: torch.Tensor | None) -> torch.Tensor | None:
        if value is None or name in per_row:
            return value
        fill = {"turn_ids": -1, "attention_mask": False, "action_mask": False}.get(name, 7)
        return torch.nn.functional.pad(value, (0, 3), value=fill)

    padded = Batch(
        **{f.name: wider(f.name, getattr(batch, f.name)) for f in dataclasses.fields(batch)}
    )
    padded_loss, got = gradient(algorithm, padded, torch.nn.functional.pad(logprobs, (0, 3)))
    assert padded_loss == pytest.approx(loss, rel=1e-12)
    assert torch.allclose(got[:, :-3], expected, rtol=1e-12, atol=0) and not got[:, -3:].any()


def test_p2_on_policy_nothing_is_clipped_and_the_gradient_is_the_policy_gradient(
    algorithm,
) -> None:
    """Property 2: theta = theta_old gives -sum of weight x advantage in each trajectory.

    Summed over a trajectory, because a turn's or a sequence's ratio spreads it over its tokens.
    """
    batch = random_batch()
    terms = terms_of(algorithm, batch, near(batch, 0.0))
    assert not (terms.clipped & batch.action_mask).any()
    _, got = gradient(algorithm, batch, batch.old_logprobs)
    weights = algorithm.weights(batch.action_mask).double()
    expected = -(weights * algorithm.advantage(batch)).sum(1)
    assert torch.allclose(got.sum(1), expected, rtol=1e-6, atol=1e-9)
    assert expected.abs().max() > 1e-3


def test_p3_t14_equal_rewards_give_exactly_no_gradient(algorithm) -> None:
    """Property 3, for every algorithm that looks at rewards and has no critic."""
    batch = random_batch()
    if not compares_rewards(algorithm, batch) or algorithm.value is not None:
        return
    batch = replace(batch, penalties=None)
    last = batch.turn_ids.max(1).values
    for value in (0.0, 0.7, 1.0):
        rewards = torch.zeros_like(batch.rewards)
        rewards[torch.arange(len(batch)), last] = value
        loss, got = gradient(algorithm, replace(batch, rewards=rewards), near(batch, 0.3))
        assert got.isfinite().all() and not got.any()
        assert loss == 0.0


def test_t14_a_group_of_one_gives_no_nan(algorithm) -> None:
    batch = random_batch()
    alone = replace(batch, group_ids=torch.arange(len(batch)))
    loss, got = gradient(algorithm, alone, near(batch, 0.3))
    assert math.isfinite(loss) and got.isfinite().all()


def test_rows_without_advantage_are_inert_where_the_algorithm_says_so(algorithm) -> None:
    """The trainer leaves such rows out of the forward pass on the word of this attribute."""
    batch = random_batch()
    if not algorithm.zero_advantage_is_inert:
        return
    logprobs = near(batch, 0.3)
    advantages = algorithm.advantage(batch).clone()
    advantages[::2] = 0
    terms = step_loss(algorithm, batch, logprobs, advantages)(logprobs, batch, advantages)
    (got,) = torch.autograd.grad(terms.per_token.sum(), logprobs)
    assert not got[::2].any() and got[1::2].any()
    assert not terms.per_token[::2].any()


def test_p4_rows_in_any_order_and_any_split_give_the_same_terms(algorithm) -> None:
    """Property 4 in the log-probabilities: a row's gradient does not know its neighbours."""
    batch = random_batch()
    logprobs = near(batch, 0.3).detach()
    _, expected = gradient(algorithm, batch, logprobs)
    order = torch.randperm(len(batch), generator=torch.Generator().manual_seed(3))
    _, got = gradient(algorithm, batch.select(order), logprobs[order])
    assert torch.allclose(got, expected[order], rtol=1e-9, atol=1e-12)
    advantages, weights = algorithm.advantage(batch), algorithm.weights(batch.action_mask)
    loss_of_step = step_loss(algorithm, batch, logprobs, advantages)
    for row in range(len(batch)):
        part = batch.select(torch.tensor([row]))
        width = part.input_ids.shape[1]
        own = logprobs[row : row + 1, :width].clone().requires_grad_()
        terms = loss_of_step(own, part, advantages[row : row + 1, :width])
        on = part.action_mask
        loss = (terms.per_token * weights[row : row + 1, :width])[on].sum()
        (alone,) = torch.autograd.grad(loss, own)
        assert torch.allclose(alone[on], expected[row, :width][on[0]], rtol=1e-9, atol=1e-12)


def test_p4_the_trainers_gradient_is_the_same_for_any_micro_batch(algorithm) -> None:
    """Through the model, in float64 weights (float32 logits): one optimiser step of ten rows."""
    policy = builds.build_policy(b_std=0.1, dtype=torch.float64)
    for parameter in policy.trainable_parameters():
        parameter.data = parameter.data.double()
    critic = None if algorithm.value is None else builds.build_critic(policy)
    batch = to_batch(builds.random_trajectories(12, seed=4), policy.pad_id)
    with torch.no_grad():
        sampled, _ = policy.logprobs(batch.input_ids, batch.action_mask, 1.0)
    batch = replace(batch, old_logprobs=near(replace(batch, old_logprobs=sampled), 0.1).detach())
    orders = [torch.arange(12), torch.arange(12).flip(0)]
    results = []
    for order in orders:
        for tokens in (1, 90, 10**6):
            optimizer = torch.optim.SGD(policy.trainable_parameters(), lr=0.0)
            options = StepOptions(1, 1, tokens, 0.0, 1.0)
            trainer = Trainer(policy, algorithm, optimizer, options, None, critic)
            metrics = trainer.update(batch.select(order), 0)
            parameters = policy.trainable_parameters()
            results.append((metrics, torch.cat([p.grad.flatten() for p in parameters])))
    metrics, expected = results[0]
    assert expected.abs().max() > 1e-4
    for other, got in results[1:]:
        assert (got - expected).norm() < 2e-6 * expected.norm()
        assert other == pytest.approx(metrics, rel=1e-4, abs=1e-6, nan_ok=True)


def test_p8_a_clipped_token_has_exactly_no_gradient(algorithm) -> None:
    """Property 8; with an outcome advantage a turn or a sequence is clipped as a whole."""
    batch = random_batch()
    logprobs = near(batch, 1.0)
    terms = terms_of(algorithm, batch, logprobs)
    clipped = terms.clipped & batch.action_mask
    # By token: with turn ratios a clipped token's log-probability still moves its turn's others.
    for row, column in clipped.nonzero().tolist():
        (got,) = torch.autograd.grad(terms.per_token[row, column], logprobs, retain_graph=True)
        assert not got.any()
    # Not a band that clips everything.
    assert total(terms.per_token, algorithm, batch).item() != 0
    assert (batch.action_mask & ~clipped).any()


@pytest.mark.parametrize("seed", range(3))
def test_p7_the_gradient_is_that_without_a_clip_less_the_removed_part(algorithm, seed) -> None:
    """Property 7: G - C = the gradient of the objective, at the level of the loss's own ratio."""
    batch = random_batch(seed)
    logprobs = near(batch, 0.5, seed)
    terms = terms_of(algorithm, batch, logprobs)
    if terms.unclipped is None:
        assert not (terms.clipped & batch.action_mask).any()
        return
    removed = torch.where(terms.clipped, terms.unclipped, torch.zeros_like(terms.unclipped))
    objective, whole, lost = (
        torch.autograd.grad(total(part, algorithm, batch), logprobs, retain_graph=True)[0]
        for part in (terms.per_token, terms.unclipped, removed)
    )
    assert torch.allclose(objective, whole - lost, rtol=0, atol=1e-14)
    assert lost.abs().max() > 1e-4  # something was clipped


def test_p2_p9_the_normaliser_is_1_on_policy_and_bounded(algorithm) -> None:
    """Property 9: never above 1 for `max1` and `smooth`, finite for `literal`."""
    if algorithm.normaliser is None:
        return
    assert algorithm.normaliser.factor(None, 1.0) == 1.0
    for rule, bound in (("max1", 1.0), ("smooth", 1.0), ("literal", math.inf)):
        normaliser = replace(algorithm.normaliser, rule=rule)
        for clip_norm in (0.0, 1e-12, 0.5, 1.0, 3.0, 1e9):
            for typical in (0.0, 1e-6, 0.2, 50.0):
                factor = normaliser.factor(clip_norm, typical)
                assert 0 <= factor <= bound and math.isfinite(factor)


def test_t15_hostile_rows_give_finite_gradients(algorithm) -> None:
    """No action tokens at all, a turn of one token, an impossible old token, a huge ratio."""
    batch = random_batch()
    mask = batch.action_mask.clone()
    mask[0] = False
    mask[1] = False
    mask[1, 3] = True
    old = batch.old_logprobs.clone()
    old[2, int(mask[2].nonzero()[0])] = -math.inf
    old[3, int(mask[3].nonzero()[0])] = -1e5
    hostile = replace(
        batch,
        action_mask=mask,
        old_logprobs=old,
        turn_ids=torch.where(mask, batch.turn_ids.clamp(min=0), -1),
    )
    logprobs = near(replace(hostile, old_logprobs=batch.old_logprobs), 0.3)
    loss, got = gradient(algorithm, hostile, logprobs)
    assert math.isfinite(loss) and got.isfinite().all()
    assert not got[0].any()


@pytest.mark.parametrize("name", NAMES)
def test_hyper_parameters_out_of_range_are_refused(name) -> None:
    """Every number of every Config has a bound: NaN is no setting."""
    module = plugins.load("agents.algorithms", name)
    for field in dataclasses.fields(module.Config()):
        value = getattr(module.Config(), field.name)
        if isinstance(value, float) or field.name == "dual_clip":
            with pytest.raises(InputError, match=rf"^{field.name} is nan; give"):
                module.Config(**{field.name: math.nan})
        if field.name.startswith("clip_"):
            with pytest.raises(InputError, match=rf"^{field.name} is -0.1; give more than 0"):
                module.Config(**{field.name: -0.1})
        if isinstance(value, str):
            with pytest.raises(InputError, match=rf"^{field.name} is 'x'; choose one of "):
                module.Config(**{field.name: "x"})
