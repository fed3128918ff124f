"""Where a model is held and in which precision, and how much memory there is."""

import torch

from retrieval.errors import InputError
from retrieval.estimate import memory_free

from . import processes

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def resolve_device(name: str) -> torch.device:
    """`model.device` as a device; "auto" is the GPU where there is one.

    Raises:
        InputError: No such device here, or one for several processes.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if processes.size() > 1:
        if name not in ("cuda", "cpu"):
            raise InputError(
                f"model.device: {name!r} is one device for {processes.size()} processes; use auto, "
                "which gives each its own GPU, or cpu"
            )
        return processes.own_gpu() if name == "cuda" else torch.device(name)
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"model.device: {name!r} is not to be had here; use auto or cpu"
        ) from error


def resolve_dtype(name: str, device: torch.device) -> torch.dtype:
    """`model.dtype` as a dtype; "auto" is bfloat16 where the hardware multiplies it fast.

    Raises:
        InputError: Another name.
    """
    if name == "auto":
        return torch.bfloat16 if _multiplies_bfloat16_fast(device) else torch.float32
    if name not in DTYPES:
        known = ", ".join(["auto", *DTYPES])
        raise InputError(f"model.dtype: unknown {name!r}; choose one of {known}")
    return DTYPES[name]


def _multiplies_bfloat16_fast(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    able = torch.cpu.get_capabilities()
    return bool(able.get("amx_bf16") or able.get("avx512_bf16"))


def device_memory(device: torch.device) -> int:
    """Bytes that this process can have on a device: all of a GPU's, or what is free of the RAM."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return memory_free()
