"""Checkpoints: a PEFT adapter that `PeftModel.from_pretrained` opens, with the optimiser beside it.

safetensors and JSON only: nothing is ever unpickled. A checkpoint is written in a scratch folder
and renamed, so that a folder named step-... is always whole.
"""

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from retrieval.errors import InputError

from .models import fingerprint
from .policy import SearchPolicy

ADAPTER = "adapter_model.safetensors"
OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"


def save_checkpoint(
    parent: Path, policy: SearchPolicy, optimizer: torch.optim.Optimizer, step: int, base: str
) -> Path:
    """Write parent/step-000123.

    Args:
        parent: The run's checkpoints folder.
        policy: Whose adapter is saved.
        optimizer: Whose moments are saved.
        step: Reinforcement-learning steps done.
        base: The base model's name, for messages.

    Returns:
        The checkpoint's folder.
    """
    parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=parent, prefix="writing-"))
    try:
        policy.model.save_pretrained(scratch)
        save_file(_optimizer_tensors(optimizer), scratch / OPTIMIZER)
        state = {"step": step, "base_model": base, "base_fingerprint": _base_fingerprint(policy)}
        (scratch / STATE).write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        target = parent / f"step-{step:06d}"
        shutil.rmtree(target, ignore_errors=True)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def latest_checkpoint(run: Path) -> Path | None:
    """The newest checkpoint of a run folder, or None."""
    found = [p for p in (run / "checkpoints").glob("step-*") if re.fullmatch(r"step-\d+", p.name)]
    return max(found, key=lambda path: int(path.name[5:]), default=None)


def load_adapter(policy: SearchPolicy, folder: Path) -> int:
    """Put a checkpoint's adapter into the policy.

    Returns:
        The checkpoint's step.

    Raises:
        InputError: Not a checkpoint, a damaged one, of another base model, or of other LoRA
            options; the policy is then unchanged.
    """
    state = _read_state(folder)
    if state["base_fingerprint"] != _base_fingerprint(policy):
        raise InputError(
            f"{folder}: this checkpoint was trained on another base model "
            f"({state['base_model']!r}); set model.name to that one"
        )
    tensors = _read_tensors(folder / ADAPTER)
    expected = get_peft_model_state_dict(policy.model)
    if {k: v.shape for k, v in tensors.items()} != {k: v.shape for k, v in expected.items()}:
        raise InputError(
            f"{folder}: the adapter has other LoRA options than the model section; use the "
            "config.yaml of the run that wrote it"
        )
    set_peft_model_state_dict(policy.model, tensors)
    return int(state["step"])


def load_optimizer(optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Restore the optimiser's moments, in the order of its parameters."""
    tensors = _read_tensors(folder / OPTIMIZER)
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = tensor
    current = optimizer.state_dict()
    optimizer.load_state_dict({"state": state, "param_groups": current["param_groups"]})


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    return {
        f"{index}.{name}": value.contiguous()
        for index, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
    }


def _base_fingerprint(policy: SearchPolicy) -> str:
    return fingerprint(policy.base_state())


def _read_state(folder: Path) -> dict[str, Any]:
    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        return {key: state[key] for key in ("step", "base_model", "base_fingerprint")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder}: not a checkpoint (no usable {STATE}); give a run folder or one of its "
            "checkpoints/step-... folders"
        ) from error


def _read_tensors(file: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{file}: missing or damaged; use an older checkpoint") from error
