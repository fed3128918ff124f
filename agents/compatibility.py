"""Whether a model and the adapters asked for fit what this floor can do, before it is used."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from retrieval.errors import InputError


def check_config(config: Any) -> None:
    """Refuse models that are not decoders with full attention over a known number of positions.

    Args:
        config: The text model's configuration.

    Raises:
        InputError: Another kind of layer, or no length limit.
    """
    # Mistral's and Phi-3's configurations name no layer types, only a window.
    windowed = getattr(config, "sliding_window", None) is not None
    fallback = ["sliding_attention" if windowed else "full_attention"]
    other = set(getattr(config, "layer_types", None) or fallback) - {"full_attention"}
    if other:
        raise InputError(
            f"model.name: layers of type {', '.join(sorted(other))} are not supported; choose a "
            "model with full attention (Llama, Qwen2.5, Qwen3, SmolLM2)"
        )
    if getattr(config, "max_position_embeddings", None) is None:
        raise InputError(
            "model.name: the model's config.json has no max_position_embeddings; choose a model "
            "with full attention (Llama, Qwen2.5, Qwen3, SmolLM2)"
        )


def check_adapters(
    base: PreTrainedModel, rank: int, target_modules: Sequence[str], last_layers: int
) -> None:
    """Refuse LoRA options that peft would ignore, or refuse without naming the key.

    Raises:
        InputError: A rank below 1, more layers than there are, or a layer of an unknown name.
    """
    depth = base.config.get_text_config().num_hidden_layers
    if rank < 1:
        raise InputError(f"model.lora_rank: {rank}; give 1 or more")
    if not 0 <= last_layers <= depth:
        raise InputError(f"model.lora_last_layers: {last_layers}, but the model has {depth} layers")
    kinds = (nn.Linear, Conv1D)
    # A layer that an adapter has wrapped already is inside the wrapper, as its base_layer.
    linear = [
        name.removesuffix(".base_layer")
        for name, module in base.named_modules()
        if isinstance(module, kinds) and "lora_" not in name
    ]
    missing = [
        target
        for target in target_modules
        if not any(name == target or name.endswith(f".{target}") for name in linear)
    ]
    if missing or not target_modules:
        known = sorted({name.rpartition(".")[2] for name in linear})
        culprit = f"{', '.join(missing)} not found" if missing else "none given"
        raise InputError(f"model.lora_target_modules: {culprit}; this model has {', '.join(known)}")


def check_logits(whole: Tensor, plain: Tensor, cached: Tensor, attention: str) -> None:
    """Refuse models whose cache or output layer a policy would handle wrongly.

    Args:
        whole: (T, V) logits of a text, as the model gives them.
        plain: The same by the output layer on the last states.
        cached: The same on states that were computed in parts, with a cache.
        attention: The model's implementation of it.

    Raises:
        InputError: Logits that are changed afterwards, or a cache that changes what is computed.
    """
    if not _agree(whole, plain):
        raise InputError(
            "model.name: this model post-processes its logits (soft-capping or scaling), "
            "which is not supported; choose another model"
        )
    if not _agree(whole, cached):
        raise InputError(
            "model.name: with a cache of keys and values this model computes something else "
            f"(attention {attention!r}); choose another model"
        )


def _agree(expected: Tensor, actual: Tensor) -> bool:
    """Whether logits are equal but for rounding."""
    tolerance = 1e-3 if expected.dtype in (torch.float32, torch.float64) else 5e-2
    return bool((expected - actual).abs().max() <= tolerance * expected.abs().max())
