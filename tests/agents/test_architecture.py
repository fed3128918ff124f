"""Sizes of models without their weights: the same as those of the real objects."""

import json
import warnings

import pytest
import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig

from agents.adapters import LoraOptions, lora_config
from agents.architecture import KNOWN, architecture, skeleton
from agents.models import load_base
from retrieval.errors import InputError
from tests.agents import builds

ALL = builds.MODULES


def lora(rank: int = 16, modules: tuple[str, ...] = ALL, last: int = 0) -> LoraOptions:
    return LoraOptions(rank, 2 * rank, modules, last)


@pytest.mark.parametrize(
    ("modules", "last"), [(ALL, 0), (ALL, 1), (("q_proj",), 0), (("o_proj", "down_proj"), 1)]
)
def test_counts_are_those_of_the_real_model_with_its_adapters(modules, last) -> None:
    options = lora(4, modules, last)
    policy = builds.build_policy(rank=4, modules=modules, last_layers=last)
    sizes = architecture("tiny", options)
    assert sizes.parameters == sum(p.numel() for p in policy.base_state().values())
    assert 4 * sizes.adapted_sizes == sum(p.numel() for p in policy.trainable_parameters())
    assert sizes.adapted_layers == (last or 2)


def test_the_embedded_models_count_is_that_of_its_weights() -> None:
    model, _ = load_base("embedded", torch.bfloat16, torch.device("cpu"))
    assert architecture("embedded", lora()).parameters == sum(p.numel() for p in model.parameters())


# Worked out by hand from the sizes, with V tokens, width H, key width K, MLP width I, L blocks:
# qwen2 has biases on q, k, v. L (2 H H + 2 H K + H + 2 K + 3 H I + 2 H) + H + V H, untied + 2 V H.
# Adapters of rank r on all seven: r L (4 H + 2 (H + K) + 3 (H + I)).
@pytest.mark.parametrize(
    ("name", "parameters", "adapters"),
    [
        ("Qwen/Qwen2.5-3B-Instruct", 3_085_938_688, 29_933_568),
        ("Qwen/Qwen2.5-7B-Instruct", 7_615_616_512, 40_370_176),
        ("meta-llama/Llama-3.1-8B-Instruct", 8_030_261_248, 41_943_040),
    ],
)
def test_the_recipes_models(name, parameters, adapters) -> None:
    sizes = architecture(name, lora())
    assert (sizes.parameters, 16 * sizes.adapted_sizes) == (parameters, adapters)
    vocabulary, hidden = sizes.vocabulary, sizes.hidden
    key, inner, layers = sizes.key_width, sizes.intermediate, sizes.layers
    bias = 0 if "Llama" in name else hidden + 2 * key
    block = 2 * hidden * hidden + 2 * hidden * key + bias + 3 * hidden * inner + 2 * hidden
    heads = 1 if "3B" in name else 2
    assert parameters == layers * block + hidden + heads * vocabulary * hidden
    pairs = 2 * (2 * hidden) + 2 * (hidden + key) + 3 * (hidden + inner)
    assert adapters == 16 * layers * pairs
    assert sizes.block_weights == layers * (block - bias - 2 * hidden)


def test_peft_adapts_the_same_layers_of_a_model_without_memory() -> None:
    """One of the recipes' models, its blocks cut to two: what peft really adds."""
    name = "Qwen/Qwen2.5-7B-Instruct"
    config = skeleton(name).config
    config.num_hidden_layers, config.layer_types = 2, config.layer_types[:2]
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        base = AutoModelForCausalLM.from_config(config)
        model = get_peft_model(base, lora_config(base, lora()))
    added = sum(p.numel() for n, p in model.named_parameters() if "lora_" in n)
    assert added * 28 == 2 * 16 * architecture(name, lora()).adapted_sizes


def test_nothing_of_a_skeleton_has_memory() -> None:
    assert {p.device.type for p in skeleton("Qwen/Qwen2.5-7B-Instruct").parameters()} == {"meta"}


def test_a_folder_needs_only_its_config(tmp_path) -> None:
    LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=3, vocab_size=99,
                num_attention_heads=4, num_key_value_heads=1).save_pretrained(tmp_path)  # fmt: skip
    sizes = architecture(str(tmp_path), lora(2))
    assert (sizes.layers, sizes.key_width, sizes.vocabulary) == (3, 8, 99)


def test_what_cannot_be_described_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match=r"holds no config\.json"):
        architecture(str(tmp_path), lora())
    with pytest.raises(InputError, match="no folder"):
        architecture(str(tmp_path / "absent"), lora())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"})[:-3])
    with pytest.raises(InputError, match="nothing says what"):
        architecture(str(tmp_path), lora())
    with pytest.raises(InputError, match="lora_target_modules"):
        architecture("tiny", lora(4, ("query",)))


def test_every_description_is_of_a_model_on_the_hub() -> None:
    assert {file.suffix for file in KNOWN.iterdir()} == {".json"}
    assert all(file.stem.count("--") == 1 for file in KNOWN.iterdir())
