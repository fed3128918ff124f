"""A prompt read once for its rows: the log-probabilities and gradients of whole rows, for less."""

import os
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from transformers.integrations.sdpa_attention import use_gqa_in_sdpa

from agents.algorithm import Algorithm
from agents.algorithms import so_grpo
from agents.critic import Critic
from agents.generation.hf import HFEngine
from agents.policy import LoraOptions, SearchPolicy
from agents.shared_prompts import Layout, prompts_of
from agents.trainer import StepOptions
from tests.agents import builds
from tests.agents.test_compatibility import tiny_of
from tests.agents.training_parts import GRPO, ONE_STEP, gradients, still

FAMILIES = ("Llama", "Qwen2", "Qwen3", "Gemma", "Phi3", "Granite", "Mistral")


def rows_of(
    groups: list[tuple[int, list[int]]], seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and action mask: a prompt's length and the lengths of what its rows say, per group."""
    random = torch.Generator().manual_seed(seed)

    def draw(count: int) -> torch.Tensor:
        return torch.randint(5, 900, (count,), generator=random)

    texts, masks = [], []
    for opening, rests in groups:
        prompt = draw(opening)
        for rest in rests:
            texts.append(torch.cat([prompt, draw(rest)]))
            said = torch.rand(rest, generator=random) < 0.5  # the rest of them is observed
            said[0] = True
            masks.append(torch.cat([torch.zeros(opening, dtype=torch.bool), said]))
    pad = torch.nn.utils.rnn.pad_sequence
    return pad(texts, batch_first=True), pad(masks, batch_first=True)


# Prompts of different lengths, rests of different lengths, rows that say one token, a row alone.
UNEVEN = [(30, [4, 9, 1, 6]), (21, [7, 7]), (26, [3])]
CASES = {
    "even": [(20, [6, 6, 6])],
    "uneven": UNEVEN,
    "one token each": [(12, [1, 1, 1]), (10, [1, 1])],
    "scattered": UNEVEN,
}


def case(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    ids, mask = rows_of(CASES[name])
    if name == "scattered":
        order = torch.tensor([3, 5, 0, 6, 1, 4, 2])
        return ids[order], mask[order]
    return ids, mask


def both(policy: SearchPolicy, compute: Callable[[], torch.Tensor]) -> list[torch.Tensor]:
    """What is computed with shared prompts, and without."""
    found = []
    for shares in (True, False):
        policy.shares_prompts = shares
        found.append(compute())
    return found


def passed_tokens(policy: SearchPolicy) -> list[int]:
    """Lists, from now on, how many tokens each forward pass of a block reads."""
    passed: list[int] = []

    def count(block: object, args: tuple[torch.Tensor, ...]) -> None:
        passed.append(args[0].shape[0] * args[0].shape[1])

    policy._backbone.layers[-1].register_forward_pre_hook(count)
    return passed


class TestTheFunctionIsTheSame:
    @pytest.mark.parametrize("recompute", [False, True])
    @pytest.mark.parametrize("last_layers", [0, 1])
    @pytest.mark.parametrize("name", CASES)
    def test_log_probabilities_entropies_and_gradients(
        self, name: str, last_layers: int, recompute: bool
    ) -> None:
        policy = builds.build_policy(b_std=0.1, last_layers=last_layers, dtype=torch.float64)
        if recompute:
            policy.recompute_activations()
        ids, mask = case(name)
        passed = passed_tokens(policy)

        def compute() -> torch.Tensor:
            policy.model.zero_grad()
            logprobs, entropies = policy.logprobs(ids, mask, 0.8, entropy_gradient=True)
            weights = torch.linspace(-1, 1, ids.numel()).reshape(ids.shape)
            (weights * (logprobs + 0.3 * entropies)).sum().backward()
            return torch.cat([logprobs.flatten(), entropies.flatten(), gradients(policy)]).detach()

        shared, whole = both(policy, compute)
        assert len(passed) == (2 if name == "one token each" else 3)
        if name == "one token each":
            assert passed == [2 * 12, 5 * 13]  # the prompts alone; whole rows
        assert whole.abs().max() > 0.1
        # Logits become float32 in the output layer; before that the order of sums differs.
        assert (shared - whole).abs().max() <= 1e-6 * whole.abs().max()

    @pytest.mark.parametrize("recompute", [False, True])
    @pytest.mark.parametrize("family", FAMILIES)
    def test_in_every_family(self, family: str, recompute: bool) -> None:
        changes = {"sliding_window": None} if family == "Mistral" else {}
        base, tokenizer = tiny_of(family, **changes)
        modules = ("qkv_proj",) if family == "Phi3" else ("q_proj", "v_proj")
        policy = SearchPolicy.with_lora(base, tokenizer, LoraOptions(4, 8, modules, 0))
        builds.randomise(policy, b_std=0.3)
        if recompute:
            policy.recompute_activations()
        ids, mask = (t % base.config.vocab_size for t in rows_of([(9, [4, 2, 6]), (7, [5, 3])]))
        passed = passed_tokens(policy)

        def compute() -> torch.Tensor:
            policy.model.zero_grad()
            logprobs, _ = policy.logprobs(ids, mask.bool(), 1.0)
            (logprobs * torch.linspace(-1, 1, ids.shape[1])).sum().backward()
            return torch.cat([logprobs.flatten(), gradients(policy)]).detach()

        shared, whole = both(policy, compute)
        assert len(passed) == 3
        assert torch.allclose(shared, whole, rtol=1e-4, atol=1e-5 * float(whole.abs().max()))

    def test_a_row_without_actions_beside_others(self) -> None:
        policy = builds.build_policy(b_std=0.1)
        ids, mask = rows_of([(20, [3, 3, 3])])
        mask[1] = False
        shared, whole = both(policy, lambda: policy.logprobs(ids, mask, 1.0)[0].detach())
        assert torch.allclose(shared, whole, atol=1e-5) and not shared[1].any()

    @pytest.mark.parametrize("recompute", [False, True])
    def test_values_of_a_critic(self, recompute: bool) -> None:
        """Beside the policy, whose adapter is the active one when gradients flow."""
        policy = builds.build_policy(b_std=0.1)
        critic: Critic = builds.build_critic(policy)
        if recompute:
            policy.recompute_activations()
        episodes = builds.random_trajectories(3)
        batch = builds.to_batch([e for e in episodes for _ in range(3)], policy.pad_id)
        passed = passed_tokens(policy)

        def compute() -> torch.Tensor:
            values = critic.values(batch)
            weights = torch.linspace(-1, 1, values.numel()).reshape(values.shape)
            grads = torch.autograd.grad((values * weights).sum(), critic.parameters())
            return torch.cat([values.flatten(), *(g.flatten() for g in grads)]).detach()

        shared, whole = both(policy, compute)
        assert len(passed) == 3 and whole.abs().max() > 0.01
        assert (shared - whole).abs().max() <= 1e-5 * whole.abs().max()

    def test_under_a_reference_that_is_the_base_model(self) -> None:
        policy = builds.build_policy(b_std=0.5)
        ids, mask = case("uneven")

        def compute() -> torch.Tensor:
            with torch.no_grad(), policy.reference():
                return policy.logprobs(ids, mask, 1.0)[0]

        shared, whole = both(policy, compute)
        assert torch.allclose(shared, whole, atol=1e-5)


class TestBfloat16:
    def test_the_gradient_is_as_near_to_that_of_float32_as_without(self) -> None:
        """The rows' gradients of a key are summed in its precision; that must cost nothing."""
        ids, mask = rows_of([(40, [5] * 16)])
        weights = torch.linspace(-1, 1, ids.numel()).reshape(ids.shape)

        def gradient(dtype: torch.dtype, shares: bool) -> torch.Tensor:
            policy = builds.build_policy(b_std=0.1, dtype=dtype)
            policy.shares_prompts = shares
            (policy.logprobs(ids, mask, 1.0)[0] * weights).sum().backward()
            return gradients(policy).float()

        exact = gradient(torch.float32, shares=False)
        shared, whole = (gradient(torch.bfloat16, shares) for shares in (True, False))
        assert (shared - exact).norm() <= 1.25 * (whole - exact).norm()
        assert (whole - exact).norm() < 0.1 * exact.norm()


class TestWhatIsPassed:
    def test_prompts_once_and_then_what_follows_them(self) -> None:
        policy = builds.build_policy()
        ids, mask = rows_of([(20, [5, 5, 5]), (16, [4, 4])])
        passed = passed_tokens(policy)
        policy.logprobs(ids, mask, 1.0)
        # Nobody asks for states from a row's last action token on.
        last = [int(row.nonzero().max()) for row in mask]
        opening = [20, 20, 20, 16, 16]
        rest = max(end - start for end, start in zip(last, opening, strict=True))
        assert passed == [2 * 20, 5 * rest]

    def test_whole_rows_where_hardly_anything_is_shared(self) -> None:
        policy = builds.build_policy()
        ids, mask = rows_of([(4, [60, 60])])
        passed = passed_tokens(policy)
        policy.logprobs(ids, mask, 1.0)
        assert passed == [2 * 64]

    def test_whole_rows_where_every_prompt_is_another(self) -> None:
        policy = builds.build_policy()
        ids, mask = rows_of([(40, [3]), (40, [3])])
        passed = passed_tokens(policy)
        policy.logprobs(ids, mask, 1.0)
        assert passed == [2 * 43]

    def test_by_hand(self) -> None:
        ids = torch.tensor([[1, 2, 3, 9], [1, 2, 4, 0], [1, 2, 3, 8]])
        prompts = prompts_of(ids, torch.tensor([3, 2, 3]))
        assert prompts == [(1, 2, 3), (1, 2), (1, 2, 3)]
        layout = Layout.of(prompts, torch.tensor([4, 3, 4]))
        assert layout.first.tolist() == [0, 1] and layout.prompt.tolist() == [0, 1, 0]
        assert layout.openings.tolist() == [3, 2, 3]
        # 2 prompts x 3 and 3 rests x 1 are 9 tokens, whole rows 12.
        assert layout.is_worth_it
        # With rests of 3: 6 + 9 tokens, and whole rows have 18; 15 / 18 is below 0.9.
        assert Layout.of(prompts, torch.tensor([6, 5, 6])).is_worth_it
        # With rests of 6: 6 + 18 tokens, whole rows 27; 24 / 27 is just below 0.9, 27 / 30 not.
        assert Layout.of(prompts, torch.tensor([9, 8, 9])).is_worth_it
        assert not Layout.of(prompts, torch.tensor([11, 10, 11])).is_worth_it


class TestTraining:
    @pytest.mark.parametrize("recompute", [False, True])
    @pytest.mark.parametrize("algorithm", [GRPO, so_grpo.build(so_grpo.Config())])
    def test_an_update_over_sampled_groups(self, algorithm: Algorithm, recompute: bool) -> None:
        """Episodes of a rollout, kept states, a normaliser: the gradient of whole rows."""
        found, counts = [], []
        for shares in (True, False):
            policy = builds.build_policy(last_layers=1, b_std=0.1, dtype=torch.float64)
            policy.shares_prompts = shares
            if recompute:
                policy.recompute_activations()
            options = StepOptions(1, 1, 700, 0.0, ONE_STEP.temperature)
            with policy.trunk.keeping():
                rollout = builds.build_rollout(HFEngine(policy), policy)
                sampling = builds.sampling(max_tokens=6, temperature=options.temperature)
                played = rollout.play(builds.world().questions[:3], 4, sampling)
                batch = builds.to_batch(played, policy.pad_id)
                rewards = torch.rand(
                    batch.rewards.shape, generator=torch.Generator().manual_seed(0)
                )
                counts.append(passed_tokens(policy))
                still(policy, algorithm, options).update(replace(batch, rewards=rewards), seed=0)
            found.append(gradients(policy))
        shared, whole = found
        assert sum(counts[0]) < 0.9 * sum(counts[1])
        assert whole.abs().max() > 1e-4
        assert (shared - whole).abs().max() <= 1e-6 * whole.abs().max()


def test_attention_on_a_cpu_reads_grouped_heads_as_they_are(monkeypatch) -> None:
    """With a mask too, where transformers copies keys for every query head unless it is told."""
    monkeypatch.delenv("TRANSFORMERS_SDPA_FORCE_GQA", raising=False)
    heads = torch.zeros(1, 1, 4, 8)
    mask = torch.ones(1, 1, 4, 4, dtype=torch.bool)
    assert not use_gqa_in_sdpa(mask, heads, heads)
    builds.build_policy()
    assert os.environ["TRANSFORMERS_SDPA_FORCE_GQA"] == "1"
    assert use_gqa_in_sdpa(mask, heads, heads)
