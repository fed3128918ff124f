"""Base models by name: the embedded one, the tiny one, a folder, or a hub name."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from retrieval.errors import InputError

from .embedded import embedded_folder
from .quantization import quantised
from .tiny import build_tiny

GROUPED_HEADS = "TRANSFORMERS_SDPA_FORCE_GQA"  # read by transformers in every attention


def load_base(
    name: str, dtype: torch.dtype, device: torch.device, quantization: str = "none"
) -> tuple[PreTrainedModel, Any]:
    """A causal language model and its tokenizer.

    Args:
        name: "embedded", "tiny", a folder with config.json and *.safetensors, or a hub name.
        dtype: Of the weights.
        device: Where they go.
        quantization: "none", or "nf4": the linear layers of the blocks in 4 bits.

    Returns:
        The model in eval mode, its parameters frozen, and the tokenizer.

    Raises:
        InputError: No such model, no weights, no tokenizer or no chat template; or it cannot be
            quantised here.
    """
    how = {} if quantization == "none" else quantised(name, dtype, device)
    model: Any
    tokenizer: Any
    if name == "tiny":
        model, tokenizer = build_tiny()
        model = model.to(dtype)
    else:
        source = str(embedded_folder()) if name == "embedded" else _checked_source(name)
        factory: Any = AutoModelForCausalLM  # its type knows no output_loading_info
        try:
            # Only safetensors: other weight files are pickles, which run code when opened.
            model, report = factory.from_pretrained(
                source, dtype=dtype, use_safetensors=True, output_loading_info=True, **how
            )
            tokenizer = AutoTokenizer.from_pretrained(source)
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise InputError(f"model.name: cannot load {name!r}: {_first_line(error)}") from error
        if report["missing_keys"]:
            # transformers has drawn them at random and only warned.
            missing = sorted(report["missing_keys"])
            raise InputError(
                f"model.name: the weights of {name!r} lack {missing[0]} ({len(missing)} missing in "
                "all); download or save the model again"
            )
    if tokenizer.chat_template is None:
        raise InputError(
            f"model.name: the tokenizer of {name!r} has no chat template; add chat_template.jinja "
            "to the model folder"
        )
    _keep_heads_grouped(device)
    model.requires_grad_(False)
    return model.to(device).eval(), tokenizer


def _keep_heads_grouped(device: torch.device) -> None:
    """On a CPU have attention with a mask read keys and values as they are.

    transformers copies them for every query head, because the fast kernels of GPUs cannot take a
    mask and fewer key than query heads together. The one for CPUs can.
    """
    if device.type == "cpu":
        os.environ.setdefault(GROUPED_HEADS, "1")


def check_name(name: str) -> None:
    """Refuse what is neither a folder nor the name of a model on the hub.

    Raises:
        InputError: It is neither.
    """
    folder = Path(name)
    if not folder.exists() and (folder.is_absolute() or name.count("/") != 1):
        raise InputError(
            f"model.name: no folder {name!r}; give a folder with config.json and "
            "*.safetensors, a hub name (owner/model), or 'embedded'"
        )


def _checked_source(name: str) -> str:
    folder = Path(name)
    check_name(name)
    if not folder.exists():
        return name
    for pattern in ("config.json", "*.safetensors"):
        if not any(folder.glob(pattern)):
            raise InputError(
                f"model.name: folder {name!r} holds no {pattern}; give a folder that "
                "save_pretrained wrote"
            )
    return name


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def end_ids(model: PreTrainedModel, tokenizer: Any) -> frozenset[int]:
    """Every id that ends a text: the tokenizer's and those of the generation config."""
    declared = getattr(model.generation_config, "eos_token_id", None)
    ids = declared if isinstance(declared, list) else [declared]
    return frozenset(i for i in [*ids, tokenizer.eos_token_id] if i is not None)


def fingerprint(weights: Mapping[str, Tensor]) -> str:
    """A short identity of a base model: names, shapes and the first values of its parameters.

    It tells a checkpoint's base model from another without reading every weight, and is the same
    whether the model is held in float32 or bfloat16.
    """
    digest = hashlib.sha256()
    for name, parameter in sorted(weights.items()):
        head = parameter.detach().flatten()[:16].bfloat16().float().cpu().tolist()
        digest.update(json.dumps([name, list(parameter.shape), head]).encode())
    return f"sha256:{digest.hexdigest()[:32]}"
