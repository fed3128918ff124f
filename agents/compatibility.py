"""Whether a model and the adapters asked for fit what this floor can do, before it is used."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from retrieval.errors import InputError

from .kv_cache import RowCache

if TYPE_CHECKING:
    from .policy import SearchPolicy


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


@torch.no_grad()
def check_logits(policy: "SearchPolicy") -> None:
    """Refuse models whose cache or output layer a policy would handle wrongly.

    Raises:
        InputError: Logits that are changed afterwards, or a cache that changes what is computed.
    """
    probe = torch.tensor([[1, 2, 3, 4]], device=policy.device)
    causal = policy.causal
    whole = causal(input_ids=probe).logits[0]
    if not _agree(whole, policy.logits(policy.hidden(probe)[0])):
        raise InputError(
            "model.name: this model post-processes its logits (soft-capping or scaling), "
            "which is not supported; choose another model"
        )
    if not _agree(whole, policy.logits(hidden_in_two_reads(policy, probe)[0])):
        raise InputError(
            "model.name: with a cache of keys and values this model computes something else "
            f"(attention {causal.config._attn_implementation!r}); choose another model"
        )


def hidden_in_two_reads(policy: "SearchPolicy", ids: Tensor) -> Tensor:
    """The states (1, T, H) of a row (1, T) as generation computes them: with a cache, in parts."""
    cache = RowCache(policy.num_layers, policy.device)
    cache.open(1)
    states = []
    for part in ids.split(3, dim=1):
        count = torch.tensor([part.shape[1]], device=policy.device)
        positions, mask = cache.begin(1, count)
        states.append(policy.hidden(part, mask, positions, cache))
        cache.advance(count)
    return torch.cat(states, dim=1)


def _agree(expected: Tensor, actual: Tensor) -> bool:
    """Whether logits are equal but for rounding."""
    tolerance = 1e-3 if expected.dtype in (torch.float32, torch.float64) else 5e-2
    return bool((expected - actual).abs().max() <= tolerance * expected.abs().max())
