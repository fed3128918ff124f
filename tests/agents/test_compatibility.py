"""Models and LoRA options that would be handled wrongly are refused, with the real reason."""

import pytest
import torch
import transformers

from agents.models import load_base
from agents.policy import LoraOptions, SearchPolicy
from agents.tiny import build_tiny
from retrieval.errors import InputError
from tests.agents import builds


def tiny_of(family: str, **changes):
    """A 2-layer model of another family, with the tiny tokenizer."""
    _, tokenizer = build_tiny()
    config = getattr(transformers, f"{family}Config")(
        **{
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 256,
            "pad_token_id": 1,
            "bos_token_id": None,
            "eos_token_id": 1,
            **changes,
        }
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = getattr(transformers, f"{family}ForCausalLM")(config)
    return model.requires_grad_(False).eval(), tokenizer


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_modules": ("foo",)}, "model.lora_target_modules: foo not found"),
        ({"target_modules": ("q_proj", "foo")}, "model.lora_target_modules: foo not found"),
        ({"target_modules": ()}, "model.lora_target_modules: none given"),
        ({"last_layers": 3}, "model.lora_last_layers: 3, but the model has 2 layers"),
        ({"last_layers": -1}, "model.lora_last_layers: -1, but"),
        ({"rank": 0}, "model.lora_rank: 0"),
    ],
)
def test_lora_options_that_do_not_fit_are_refused(options, message) -> None:
    base, tokenizer = load_base("tiny", torch.float32, torch.device("cpu"))
    good = {"rank": 4, "alpha": 8, "target_modules": ("q_proj",), "last_layers": 0}
    with pytest.raises(InputError, match=f"^{message}"):
        SearchPolicy.with_lora(base, tokenizer, LoraOptions(**good | options))


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        # Mistral's configuration names no layer types, only a window.
        ("Mistral", {"sliding_window": 8}, "sliding"),
        ("Qwen2", {"use_sliding_window": True, "max_window_layers": 1}, "sliding_attention"),
        ("Cohere", {"logit_scale": 0.0625}, "post-processes its logits"),
        ("Granite", {"logits_scaling": 8.0}, "post-processes its logits"),
        (
            "Gemma2",
            {
                "layer_types": ["full_attention"] * 2,
                "head_dim": 8,
                "final_logit_softcapping": 0.05,
            },
            "post-processes its logits",
        ),
    ],
)
def test_models_it_would_sample_from_wrongly_are_refused(family, changes, message) -> None:
    model, tokenizer = tiny_of(family, **changes)
    options = LoraOptions(4, 8, ("q_proj",), 0)
    with pytest.raises(InputError, match=f"^model.name: .*{message}"):
        SearchPolicy.with_lora(model, tokenizer, options)


@pytest.mark.parametrize("family", ["Mistral", "Qwen2", "Qwen3", "Llama"])
def test_their_full_attention_relatives_are_welcome(family) -> None:
    changes = {"sliding_window": None} if family == "Mistral" else {}
    model, tokenizer = tiny_of(family, **changes)
    policy = SearchPolicy.with_lora(model, tokenizer, LoraOptions(4, 8, ("q_proj",), 0))
    assert policy.num_layers == 2


def test_an_attention_that_misreads_the_cache_is_refused() -> None:
    """Eager attention adds the mask to the scores: True would mean plus one, not visible."""
    model, tokenizer = tiny_of("Llama")
    model.set_attn_implementation("eager")
    with pytest.raises(InputError, match=r"^model\.name: with a cache .*'eager'"):
        SearchPolicy(model, tokenizer)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_rounding_is_no_reason_to_refuse(dtype) -> None:
    assert builds.build_policy(dtype=dtype).num_layers == 2


def test_a_model_without_a_length_limit_is_refused() -> None:
    _, tokenizer = build_tiny()
    config = transformers.MambaConfig(vocab_size=1024, hidden_size=32, num_hidden_layers=2)
    with pytest.raises(InputError, match=r"^model\.name: "):
        SearchPolicy(transformers.MambaForCausalLM(config).eval(), tokenizer)
