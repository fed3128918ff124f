"""A base model in 4 bits (NF4, arXiv:2305.14314), by bitsandbytes; adapters stay float32."""

import importlib.util
from typing import Any

import torch
from transformers import BitsAndBytesConfig

from retrieval.errors import InputError

BLOCK = 64  # weights that share one float32 scale
BYTES_PER_WEIGHT = 0.5 + 4 / BLOCK


def quantised(name: str, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
    """What `from_pretrained` needs to load a model in 4 bits.

    Args:
        name: Of the model.
        dtype: Of the products, and of what is not quantised (embeddings, head, norms).
        device: Where it goes; weights are quantised on their way there.

    Raises:
        InputError: No GPU, no bitsandbytes, or the model built in memory.
    """
    if name == "tiny":
        raise InputError(
            "model.quantization: the tiny model is not read from a file; set it to none"
        )
    if device.type != "cuda":
        raise InputError(
            f"model.quantization: nf4 needs a GPU and the device is {device.type}; set it to none"
        )
    if importlib.util.find_spec("bitsandbytes") is None:
        raise InputError(
            "model.quantization: nf4 needs the package bitsandbytes; run `pip install "
            "bitsandbytes`, or set it to none"
        )
    config = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
    )
    return {"quantization_config": config, "device_map": {"": device}}
