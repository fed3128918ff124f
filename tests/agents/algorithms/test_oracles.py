"""Property 14: every algorithm's objective against plain loops (oracles.py), within 1e-9."""

import dataclasses
from dataclasses import replace
from typing import Any

import pytest
import torch

from agents.strata import KEYS
from agents.types import Batch
from retrieval import plugins
from tests.agents import builds
from tests.agents.algorithms.oracles import normaliser_factor, outcome
from tests.contracts.test_algorithms import near, terms_of, total

NAMES = plugins.names("agents.algorithms")
# Beside the defaults: every option moved away from them.
OTHERS: dict[str, list[dict[str, Any]]] = {
    "ppo": [{"gamma": 0.9, "lam": 0.8, "whiten": False}, {"dual_clip": 1.1, "clip_high": 0.4}],
    "turn_ppo": [{"advantage_pooling": "turn_mean", "lam": 0.9}, {"clip_low": 0.01}],
    "so_ppo": [{"advantage_pooling": "turn_mean", "whiten": False, "gamma": 0.95}],
    "grpo": [{"clip_low": 0.05, "clip_high": 0.5, "std_eps": 0.1}, {"dual_clip": 1.2}],
    "gspo": [{"clip_low": 0.05, "clip_high": 0.02, "std_eps": 1e-4}],
    "stratified_grpo": [
        {"alpha": 1.0, "strata": "turns"},
        {"alpha": 0.3, "strata": "random", "std_eps": 0.05},
        {"alpha": 0.0},
    ],
    "dr_grpo": [{"max_tokens": 7}],
    "sapo": [{"tau_pos": 0.5, "tau_neg": 3.0}],
    "bapo": [{"low_start": 0.7, "positive_share": 0.9}, {"positive_share": 0.0, "dual_clip": 1.5}],
    "cispo": [{"cap": 1.05}],
    "gigpo": [{"omega": 0.5, "gamma": 0.9, "use_std": False}, {"omega": 2.0, "gamma": 0.95}],
    "reinforce_pp": [{"whiten_eps": 0.1}],
    "rejection_sampling": [{"threshold": 0.3}],
}
CASES = [(name, options) for name in NAMES for options in [{}, *OTHERS.get(name, [])]]


IDS = [f"{name}-{i}" for i, (name, _) in enumerate(CASES)]


def hard_batch(seed: int, penalties: bool) -> Batch:
    """Ragged rows, some turns' contexts repeated, NaN wherever nothing was sampled."""
    batch = builds.random_batch(seed)
    ids = batch.input_ids.clone()
    first = batch.action_mask.int().argmax(1)
    for row in range(len(batch)):
        # All prompts of a group are equal, and every observation is one of two.
        ids[row, : first[row]] = int(batch.group_ids[row])
        later = torch.arange(ids.shape[1]) > first[row]
        ids[row, ~batch.action_mask[row] & later & batch.attention_mask[row]] = 7 + seed % 2
    if penalties:
        batch = replace(batch, penalties=0.002 * batch.old_logprobs.square())
    off = ~batch.action_mask
    names = ("old_logprobs", "ref_logprobs", "values", "penalties")
    known = {n: getattr(batch, n) for n in names if getattr(batch, n) is not None}
    dirty = {name: torch.where(off, torch.nan, value) for name, value in known.items()}
    # Rewards at every turn, some of them equal.
    turns = torch.arange(batch.rewards.shape[1]) < batch.num_turns[:, None]
    extra = torch.randint(0, 3, batch.rewards.shape, generator=torch.Generator().manual_seed(seed))
    return replace(batch, input_ids=ids, rewards=batch.rewards + 0.25 * extra * turns, **dirty)


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
@pytest.mark.parametrize("seed", range(4))
def test_p14_loss_gradient_and_clips_are_those_of_plain_loops(name, options, seed) -> None:
    batch = hard_batch(seed, penalties=seed % 2 == 1)
    module = plugins.load("agents.algorithms", name)
    config = module.Config(**options)
    algorithm = module.build(config)
    values: dict[str, Any] = dataclasses.asdict(config)
    if values.get("strata") == "random":
        values["labels"] = KEYS["random"](batch).tolist()
    logprobs = near(replace(batch, old_logprobs=batch.old_logprobs.nan_to_num()), 0.3, seed)
    terms = terms_of(algorithm, batch, logprobs)
    loss = total(terms.per_token, algorithm, batch)
    expected = outcome(name, values, batch, logprobs)
    assert loss.item() == pytest.approx(expected.loss.item(), rel=1e-9, abs=1e-12)
    (got,) = torch.autograd.grad(loss, logprobs, retain_graph=True)
    (wanted,) = torch.autograd.grad(expected.loss, logprobs, retain_graph=True)
    assert torch.allclose(got, wanted, rtol=1e-9, atol=1e-12) and wanted.abs().max() > 1e-4
    mask = batch.action_mask
    advantages = torch.where(mask, algorithm.advantage(batch), 0.0)
    assert torch.allclose(
        advantages, torch.tensor(expected.advantages, dtype=torch.float64), rtol=1e-9, atol=1e-12
    )
    places = (terms.clipped & mask).nonzero().tolist()
    assert {(row, column) for row, column in places} == expected.clipped
    if terms.unclipped is not None:
        kept = torch.where(terms.clipped, terms.unclipped, torch.zeros_like(terms.unclipped))
        (lost,) = torch.autograd.grad(total(kept, algorithm, batch), logprobs)
        removed = expected.removed
        (wanted,) = torch.autograd.grad(removed, logprobs) if removed.requires_grad else (0 * lost,)
        assert torch.allclose(lost, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rule", ["literal", "max1", "smooth"])
@pytest.mark.parametrize("power", [1, 2])
def test_the_normalisers_factor_is_that_of_the_page(rule, power) -> None:
    normaliser = plugins.load("agents.algorithms", "so_ppo").Config(rule=rule, power=power)
    for clip_norm in (None, 0.0, 0.3, 1.0, 2.5):
        for typical in (0.0, 0.1, 4.0):
            expected = normaliser_factor(
                rule, power, clip_norm or 0.0, typical, clip_norm is not None, normaliser.delta
            )
            assert normaliser.factor(clip_norm, typical) == pytest.approx(expected, rel=1e-12)
