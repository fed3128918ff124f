"""What a base model is made of, known without its weights: for planning, not for running."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from retrieval.errors import InputError

from .adapters import LoraOptions
from .compatibility import check_adapters, check_config
from .embedded import embedded_folder
from .models import check_name
from .tiny import build_tiny

KNOWN = Path(__file__).parent / "architectures"  # config.json of models on the hub, OWNER--NAME
_BLOCK = re.compile(r"\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class Architecture:
    """The sizes of a decoder, and of the adapters on it.

    Attributes:
        parameters: Weights of the base model; tied ones count once.
        block_weights: Those of the linear layers in its blocks, which 4 bits can hold.
        layers: Blocks.
        adapted_layers: Blocks from the first adapted one on: those that a backward pass enters.
        hidden: Width of the states.
        heads: Query heads.
        query_width: Query heads x head width.
        key_width: Key-value heads x head width.
        intermediate: Width inside the MLP.
        vocabulary: Tokens.
        positions: The longest context.
        adapted_inputs: Widths of what the adapted layers of one block read.
        shared_inputs: The same, an input that several of them read counted once, and attention's
            output not at all: attention keeps it.
        adapted_sizes: Inputs plus outputs of all adapted layers; times the rank, their weights.
    """

    parameters: int
    block_weights: int
    layers: int
    adapted_layers: int
    hidden: int
    heads: int
    query_width: int
    key_width: int
    intermediate: int
    vocabulary: int
    positions: int
    adapted_inputs: tuple[int, ...]
    shared_inputs: tuple[int, ...]
    adapted_sizes: int


@cache
def architecture(name: str, lora: LoraOptions) -> Architecture:
    """The sizes of `model.name` with adapters; no weight is read or made.

    Raises:
        InputError: No such model, one that is not supported, or LoRA options that do not fit it.
    """
    model = skeleton(name)
    config: Any = model.config.get_text_config()
    check_config(config)
    check_adapters(model, lora.rank, lora.target_modules, lora.last_layers)
    linear = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Linear)]
    layers: int = config.num_hidden_layers
    first = layers - lora.last_layers if lora.last_layers else 0
    adapted = [
        (n, m)
        for n, m in linear
        if (_block(n) or 0) >= first and n.rpartition(".")[2] in lora.target_modules
    ]
    of_one = [(n, m) for n, m in adapted if _block(n) == layers - 1]
    heads: int = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    return Architecture(
        parameters=sum(p.numel() for p in model.parameters()),
        block_weights=sum(m.weight.numel() for n, m in linear if _block(n) is not None),
        layers=layers,
        adapted_layers=layers - first,
        hidden=config.hidden_size,
        heads=heads,
        query_width=heads * width,
        key_width=(getattr(config, "num_key_value_heads", None) or heads) * width,
        intermediate=getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
        vocabulary=config.vocab_size,
        positions=config.max_position_embeddings,
        adapted_inputs=tuple(m.in_features for _, m in of_one),
        shared_inputs=tuple(
            {_reads(n): m.in_features for n, m in of_one if not n.endswith("o_proj")}.values()
        ),
        adapted_sizes=sum(m.in_features + m.out_features for _, m in adapted),
    )


def skeleton(name: str) -> PreTrainedModel:
    """A model of the right shape on torch's meta device, where tensors have no memory.

    Args:
        name: As `model.name`; of a folder, config.json is enough.

    Raises:
        InputError: Nothing says what the model is made of.
    """
    config = _config(name)
    try:
        with torch.device("meta"):
            model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"model.name: {name!r} is no causal language model: {error}") from error
    return model


def _config(name: str) -> Any:
    if name == "tiny":
        return _tiny_config()
    if name != "embedded":
        check_name(name)
    known = KNOWN / f"{name.replace('/', '--')}.json"
    source = embedded_folder() if name == "embedded" else Path(name)
    if source.is_dir() and not (source / "config.json").exists():
        raise InputError(f"model.name: folder {name!r} holds no config.json; give one that does")
    try:
        if source.is_dir():
            return AutoConfig.from_pretrained(str(source), local_files_only=True)
        return AutoConfig.from_pretrained(str(known) if known.is_file() else name)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"model.name: nothing says what {name!r} is made of ({reason}); give a folder that "
            "holds its config.json"
        ) from error


@cache
def _tiny_config() -> Any:
    return build_tiny()[0].config


def _block(name: str) -> int | None:
    """The number of the block that a layer stands in; None outside of them."""
    found = _BLOCK.search(name)
    return int(found.group(1)) if found else None


def _reads(name: str) -> str:
    """What a layer reads, as a key: the layers of one part read the same, but for its last one."""
    return name if name.endswith("down_proj") else name.rpartition(".")[0]
