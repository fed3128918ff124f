"""States kept from sampling: those of a pass from scratch, with the same gradients, for less."""

from contextlib import nullcontext

import pytest
import torch

from agents.batching import to_batch
from agents.generation import hf
from agents.generation.hf import HFEngine
from agents.penalty import Penalty
from agents.policy import LoraOptions, SearchPolicy
from agents.types import Batch
from tests.agents import builds
from tests.agents.test_compatibility import tiny_of
from tests.agents.training_parts import GRPO, ONE_STEP, block_calls, gradients, still


def build_policy(dtype: torch.dtype = torch.float64) -> SearchPolicy:
    """Two blocks, the second adapted."""
    return builds.build_policy(last_layers=1, b_std=0.1, dtype=dtype)


def play(policy: SearchPolicy, **limits: int) -> Batch:
    """Two groups of four episodes; noise, which goes on to the last turn."""
    rollout = builds.build_rollout(HFEngine(policy), policy, **limits)
    options = builds.sampling(max_tokens=6, temperature=ONE_STEP.temperature)
    return to_batch(rollout.play(builds.world().questions[:2], 4, options), policy.pad_id)


def learn(policy: SearchPolicy, batch: Batch) -> torch.Tensor:
    """The gradient of a step with a penalty, which passes the reference too."""
    random = torch.Generator().manual_seed(0)
    batch.rewards.copy_(torch.rand(batch.rewards.shape, generator=random))
    still(policy, GRPO, penalty=Penalty(kl=0.3)).update(batch, seed=0)
    return gradients(policy)


class TestDepth:
    @pytest.mark.parametrize(("last_layers", "depth"), [(0, 0), (2, 0), (1, 1)])
    def test_it_ends_below_the_first_adapted_block(self, last_layers: int, depth: int) -> None:
        assert builds.build_policy(last_layers=last_layers).trunk.depth == depth

    def test_a_model_that_is_not_trained_has_none(self) -> None:
        base, tokenizer = tiny_of("Llama")
        assert SearchPolicy(base, tokenizer).trunk.depth == 0

    def test_trained_embeddings_change_what_all_blocks_read(self) -> None:
        policy = build_policy()
        policy.causal.get_input_embeddings().requires_grad_(True)
        assert policy.trunk.depth == 0

    def test_the_adapter_of_a_critic_counts(self) -> None:
        policy = build_policy()
        policy.add_adapter("critic", LoraOptions(4, 8, builds.MODULES, 0))
        assert policy.trunk.depth == 0


@pytest.mark.parametrize("read_tokens", [2048, 20])
def test_the_states_are_those_of_a_pass_from_scratch(monkeypatch, read_tokens: int) -> None:
    """Episodes of several turns, at every position but the last token's, which nobody read."""
    monkeypatch.setattr(hf, "READ_TOKENS", read_tokens)
    policy = build_policy()
    with policy.trunk.keeping():
        batch = play(policy, max_turns=3)
        counts = batch.lengths - 1
        kept = policy.trunk.states(batch.input_ids, counts)
        assert kept is not None and kept.shape[1] == int(counts.max())
        with torch.inference_mode():
            policy.hidden(batch.input_ids)
            whole = policy.trunk.entered()
        for row, count in enumerate(counts.tolist()):
            assert torch.allclose(kept[row, :count], whole[row, :count], atol=1e-12)
            assert not kept[row, count:].any()
    assert len(set(counts.tolist())) > 1


@pytest.mark.parametrize("recompute", [False, True])
def test_the_gradient_is_the_same_and_frozen_blocks_are_left_out(recompute: bool) -> None:
    found = []
    for keeps in (True, False):
        policy = build_policy()
        if recompute:
            policy.recompute_activations()
        with policy.trunk.keeping() if keeps else nullcontext():
            batch = play(policy)
            counts = block_calls(policy)
            found.append(learn(policy, batch))
        assert (counts[0] == 0) is keeps and counts[1] > 0
    kept, computed = found
    assert computed.abs().max() > 1e-4
    # float64 throughout: what differs is the order of sums.
    assert torch.allclose(kept, computed, rtol=1e-9, atol=1e-12)


def test_the_critic_reads_them_too() -> None:
    found = []
    policy = build_policy()
    critic = builds.build_critic(policy, last_layers=1)
    with policy.trunk.keeping():
        batch = play(policy)
        counts = block_calls(policy)
        found.append(critic.values(batch))
        assert counts == [0, 2]  # prompts, and then what follows them
    found.append(critic.values(batch))
    grads = [torch.autograd.grad(v.sum(), critic.parameters()) for v in found]
    assert torch.allclose(*found, atol=1e-6) and found[0].abs().max() > 0.01
    for kept, computed in zip(*grads, strict=True):
        assert torch.allclose(kept, computed, rtol=1e-5, atol=1e-6)


class TestWhatIsComputedWhole:
    def test_rows_that_nobody_sampled(self) -> None:
        policy = build_policy()
        with policy.trunk.keeping():
            batch = play(policy)
            counts = batch.lengths - 1
            assert policy.trunk.states(batch.input_ids, counts) is not None
            batch.input_ids[3, counts[3] - 1] += 1
            assert policy.trunk.states(batch.input_ids, counts) is None
            passed = block_calls(policy)
            learn(policy, batch)
        # Its micro-batch alone.
        assert 0 < passed[0] < passed[1]

    def test_everything_outside_of_the_context(self) -> None:
        policy = build_policy()
        batch = play(policy)
        with policy.trunk.keeping():
            assert policy.trunk.states(batch.input_ids, batch.lengths) is None
            batch = play(policy)
        assert policy.trunk.states(batch.input_ids, batch.lengths - 1) is None
        assert not policy.causal.model.layers[1]._forward_pre_hooks

    def test_an_engine_told_not_to_keep_them(self) -> None:
        policy = build_policy()
        with policy.trunk.keeping():
            engine = hf.build(hf.Config(keep_states=False), policy)
            session = engine.open([[5, 6]], 1, builds.sampling(max_tokens=1))
            session.turn({0: ()})
            assert policy.trunk.states(torch.tensor([[5, 6]]), torch.tensor([2])) is None

    def test_all_where_every_block_is_adapted(self) -> None:
        policy = builds.build_policy(b_std=0.1)
        with policy.trunk.keeping():
            batch = play(policy)
            counts = block_calls(policy)
            learn(policy, batch)
        assert counts[0] == counts[1] > 0


@pytest.mark.parametrize(
    ("family", "changes", "begins_above"),
    [
        ("Llama", {}, True),
        ("Qwen2", {}, True),
        ("Qwen3", {}, True),
        ("Gemma", {}, True),
        ("Phi3", {}, True),
        # It would scale the states as well.
        ("Granite", {"embedding_multiplier": 3.0}, False),
    ],
)
def test_families_that_change_what_they_read_are_computed_whole(
    family, changes, begins_above
) -> None:
    base, tokenizer = tiny_of(family, **changes)
    modules = ("qkv_proj",) if family == "Phi3" else ("q_proj",)
    policy = SearchPolicy.with_lora(base, tokenizer, LoraOptions(4, 8, modules, 1))
    builds.randomise(policy, b_std=0.1)
    ids, mask = torch.tensor([[5, 6, 7]]), torch.tensor([[False, True, True]])
    with torch.no_grad():
        expected, _ = policy.logprobs(ids, mask, temperature=1.0)
        with policy.trunk.keeping():
            HFEngine(policy).open([[5, 6]], 1, builds.sampling(max_tokens=1)).turn({0: ()})
            assert (policy.trunk.states(ids, torch.tensor([2])) is not None) is begins_above
            actual, _ = policy.logprobs(ids, mask, temperature=1.0)
    assert torch.allclose(actual, expected, atol=1e-5)
