"""The memory estimate: counted by hand, and against autograd's and the cache's own bytes."""

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from jsonargparse import ArgumentParser
from peft import get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from agents import command_line, memory
from agents.adapters import LoraOptions, lora_config
from agents.architecture import architecture
from agents.config import TRAIN_LAYOUT, RunConfig
from agents.kv_cache import RowCache
from agents.memory import estimate, saved_per_token
from tests.agents import builds
from tests.agents.test_recomputation import kept_bytes

CPU = torch.device("cpu")
SIZES = {
    "vocab_size": 50,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
}


def read(*flags: str) -> RunConfig:
    config = Path(__file__).parents[2] / "configs/tiny.yaml"
    argv = ["--config", str(config), *flags]
    return RunConfig(**command_line.parse(ArgumentParser(), TRAIN_LAYOUT, argv, {})[0])


def item(items, name: str) -> float:
    (found,) = [entry.bytes for entry in items if entry.name == name]
    return found


def kept_by(kind, config, modules, dtype, tokens) -> int:
    """Bytes that autograd keeps of a model with adapters, its weights left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        base = kind(config).to(dtype).requires_grad_(False)
        model = get_peft_model(base, lora_config(base, LoraOptions(3, 6, modules, 0)))
    # A gradient that enters from below, as it does in every block but the first.
    model.enable_input_require_grads()
    ids = torch.arange(tokens)[None] % 50
    decoder = model.get_base_model().model
    kept = kept_bytes(lambda: decoder(input_ids=ids, use_cache=False).last_hidden_state)
    return kept - sum(p.numel() * p.element_size() for p in decoder.layers.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("kinds", "modules"),
    [
        ((LlamaConfig, LlamaForCausalLM), builds.MODULES),
        ((LlamaConfig, LlamaForCausalLM), ("q_proj", "v_proj")),
        ((Qwen2Config, Qwen2ForCausalLM), ("o_proj", "up_proj", "down_proj")),
    ],
)
def test_what_a_block_keeps_of_a_token_is_what_autograd_keeps(
    tmp_path, dtype, kinds, modules
) -> None:
    """Three blocks less two blocks are one; 64 tokens less 32 leave out what no token adds."""

    def kept(layers: int, tokens: int) -> int:
        config = kinds[0](**SIZES, num_hidden_layers=layers)
        config.save_pretrained(tmp_path)
        return kept_by(kinds[1], config, modules, dtype, tokens)

    block = (kept(3, 64) - kept(2, 64)) - (kept(3, 32) - kept(2, 32))
    sizes = architecture(str(tmp_path), LoraOptions(3, 6, modules, 0))
    assert block == 32 * saved_per_token(sizes, 3, dtype.itemsize)


def test_the_parts_by_hand() -> None:
    """The tiny model: V 1024, H 64, 4 heads of 16, 2 of keys, MLP 128, 2 blocks, tied."""
    config = read(
        "--algorithm.name", "so_ppo", "--model.lora_rank", "8", "--optimizer.name", "adamw"
    )
    found = estimate(config, torch.float32, on_gpu=False)
    base = 1024 * 64 + 64 + 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64)
    policy = 8 * 2 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 128))
    critic = policy * config.algorithm.build().value.rank // 8 + 64 + 1
    assert found.base_parameters == base
    assert found.trainable_parameters == policy + critic
    assert item(found.always, "base weights") == 4 * base
    assert item(found.always, "gradients") == 4 * (policy + critic)
    assert item(found.always, "AdamW moments") == 8 * (policy + critic)
    assert item(found.always, "normaliser") == 4 * policy
    # 16 episodes or 20 questions; 900 tokens in steps of 128 slots; 2 layers of 2 x 32 numbers.
    assert item(found.sampling, "key-value cache") == 20 * 1024 * 2 * 2 * 32 * 4
    assert item(found.training, "logits of a chunk") == 512 * 1024 * 8
    assert found.context_tokens == 900 and found.step_tokens == 16 * 900
    # 2,048 tokens; norms, three inputs (attention's output stays anyway), 7 of rank 8, ...
    block = 2 * 65 * 4 + (64 + 64 + 128) * 4 + 7 * 8 * 4 + 2 * 96 * 4 + 4 * 4 + 3 * 128 * 4
    assert item(found.training, "activations") == 2048 * 2 * block
    assert found.peak == found.least + max(
        sum(i.bytes for i in found.sampling), sum(i.bytes for i in found.training)
    )


def test_an_entropy_term_keeps_more_of_the_logits() -> None:
    """Its gradient needs scaled logits, log-softmax, probabilities and their product."""
    flags = ["--penalty.name", "entropy", "--penalty.coef", "0.01"]
    found = estimate(read(*flags), torch.float32, on_gpu=False)
    assert item(found.training, "logits of a chunk") == 512 * 1024 * 16


def test_the_cache_is_as_large_as_the_cache(monkeypatch) -> None:
    """A real one, filled to the limit, in the sizes of the plan."""
    config = read("--engine.max_episodes", "4", "--rollout.group_size", "2",
                  "--evaluation.questions", "0", "--env.max_context_tokens", "300")  # fmt: skip
    policy = builds.build_policy()
    cache = RowCache(policy.num_layers, 4, CPU)
    counts = torch.full((4,), 300)
    positions, mask = cache.begin(range(4), counts)
    with torch.no_grad():
        policy.hidden(torch.ones(4, 300, dtype=torch.int64), mask, positions, cache)
    real = sum(t.nbytes for layer in cache._row_layers for t in (layer.keys, layer.values))
    assert item(estimate(config, torch.float32, False).sampling, "key-value cache") == real


class TestStatesOfFrozenBlocks:
    def test_they_are_counted_in_both_phases(self) -> None:
        """16 episodes of 900 tokens, 64 numbers of a token, in each of the rounds that it draws."""
        flags = ["--model.lora_last_layers", "1"]
        for more, rounds in (([], 1), (["--sampling.name", "dynamic"], 3)):
            found = estimate(read(*flags, *more), torch.float32, on_gpu=True)
            for phase in (found.sampling, found.training):
                assert item(phase, "states of frozen blocks") == rounds * 16 * 900 * 64 * 4

    @pytest.mark.parametrize(
        "flags",
        [
            [],
            ["--model.lora_last_layers", "2"],
            ["--model.lora_last_layers", "1", "--engine.keep_states", "false"],
            ["--model.lora_last_layers", "1", "--engine.name", "vllm"],
        ],
    )
    def test_there_are_none(self, flags: list[str]) -> None:
        names = [part.name for part in estimate(read(*flags), torch.float32, False).training]
        assert "states of frozen blocks" not in names


class TestWhatChangesIt:
    def test_recomputing_keeps_inputs_and_one_block(self) -> None:
        plain, less = (
            item(estimate(read("--model.gradient_checkpointing", flag), torch.float32, False)
                 .training, "activations")
            for flag in ("false", "true")
        )  # fmt: skip
        block = plain / 2048 / 2
        assert less == 2048 * (2 * 64 * 4 + block)

    def test_only_blocks_that_a_backward_pass_enters_keep_anything(self) -> None:
        both, last = (
            item(estimate(read("--model.lora_last_layers", n), torch.float32, False)
                 .training, "activations")
            for n in ("0", "1")
        )  # fmt: skip
        assert both == 2 * last

    def test_a_row_longer_than_the_budget_stands_alone(self) -> None:
        config = read("--optimizer.microbatch_tokens", "100")
        assert estimate(config, torch.float32, False).training[1].bytes == pytest.approx(
            estimate(read("--optimizer.microbatch_tokens", "900"), torch.float32, False)
            .training[1].bytes
        )  # fmt: skip

    def test_4_bits(self) -> None:
        config = read("--model.quantization", "nf4")
        sizes = architecture("tiny", LoraOptions(32, 64, builds.MODULES, 0))
        rest = sizes.parameters - sizes.block_weights
        blocks = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128)
        assert sizes.block_weights == blocks
        expected = blocks * (0.5 + 4 / 64) + 2 * rest
        assert item(estimate(config, torch.bfloat16, True).always, "base weights") == expected

    def test_without_a_limit_turns_and_observations_add_up(self) -> None:
        config = read()
        config = replace(config, env=replace(config.env, max_context_tokens=None))
        # 4 turns of 48 tokens, 3 observations of 160, a prompt of 512.
        assert memory.context_tokens(config, 2048) == 4 * 48 + 3 * 160 + 512
        assert memory.context_tokens(config, 700) == 700

    def test_an_engine_elsewhere_keeps_no_cache_here(self) -> None:
        config = read()
        away = replace(config, engine=replace(config.engine, name="elsewhere"))
        assert [i.bytes for i in estimate(away, torch.float32, False).sampling] == [0]
