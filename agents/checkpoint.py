"""Checkpoints: a PEFT adapter that `PeftModel.from_pretrained` opens, with the optimiser beside it.

safetensors and JSON only: nothing is ever unpickled. A checkpoint is written in a scratch folder
and renamed, so that a folder named step-... is always whole.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from retrieval.errors import InputError

from .critic import ADAPTER as CRITIC
from .critic import Critic
from .models import fingerprint
from .policy import SearchPolicy
from .writing import put_in_place, remove_folder, scratch_folder

ADAPTER = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"
VALUE_HEAD = "value_head.safetensors"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come, besides the policy's adapter.

    Attributes:
        step: Reinforcement-learning steps done.
        optimizer: Whose moments are saved.
        critic: Whose adapter and head are saved, if the algorithm has one.
        training: What else later steps depend on; JSON.
    """

    step: int
    optimizer: torch.optim.Optimizer
    critic: Critic | None = None
    training: Mapping[str, Any] = field(default_factory=dict)


def save_checkpoint(parent: Path, policy: SearchPolicy, progress: Progress, base: str) -> Path:
    """Write parent/step-000123.

    Args:
        parent: The run's checkpoints folder.
        policy: Whose adapter is saved.
        progress: Everything else.
        base: The base model's name, for messages.

    Returns:
        The checkpoint's folder.
    """
    target = parent / f"step-{progress.step:06d}"
    with scratch_folder(target) as folder:
        # The critic's adapter, if there is one, becomes a folder of its own in there.
        policy.model.save_pretrained(folder)
        if progress.critic is not None:
            save_file(progress.critic.head.state_dict(), folder / VALUE_HEAD)
        save_file(_optimizer_tensors(progress.optimizer), folder / OPTIMIZER)
        state = {
            "step": progress.step,
            "base_model": base,
            "base_fingerprint": _base_fingerprint(policy),
            "training": dict(progress.training),
        }
        file = folder / STATE
        file.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        _share(folder, file.stat().st_mode)
        put_in_place(folder, target)
    return target


def checkpoints(run: Path) -> dict[int, Path]:
    """Step -> folder of every checkpoint of a run, the oldest first."""
    found = {
        int(path.name[5:]): path
        for path in (run / "checkpoints").glob("step-*")
        if re.fullmatch(r"step-\d+", path.name)
    }
    return dict(sorted(found.items()))


def latest_checkpoint(run: Path) -> Path | None:
    """The newest checkpoint of a run folder, or None."""
    return next(reversed(checkpoints(run).values()), None)


def prune_checkpoints(run: Path, keep: int, protected: Collection[int]) -> None:
    """Remove all but the newest checkpoints of a run.

    Args:
        run: Its folder.
        keep: How many stay; 0 for all.
        protected: Steps whose checkpoints stay in any case.
    """
    found = checkpoints(run)
    for step in list(found)[:-keep] if keep else ():
        if step not in protected:
            remove_folder(found[step])


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
    same_shapes = _shapes(tensors) == _shapes(expected)
    # The scale stands in no tensor: alpha / rank.
    if not same_shapes or _read_alpha(folder) != policy.model.active_peft_config.lora_alpha:
        raise InputError(
            f"{folder}: the adapter has other LoRA options than the model section; use the "
            "config.yaml of the run that wrote it"
        )
    set_peft_model_state_dict(policy.model, tensors)
    step: int = state["step"]
    return step


def load_critic(critic: Critic, folder: Path) -> None:
    """Put a checkpoint's critic in place.

    Raises:
        InputError: Missing or damaged, or of other options; the critic is then unchanged.
    """
    adapter = _read_tensors(folder / CRITIC / ADAPTER)
    head = _read_tensors(folder / VALUE_HEAD)
    model = critic.policy.model
    known = _shapes(get_peft_model_state_dict(model, adapter_name=CRITIC))
    if _shapes(adapter) != known or _shapes(head) != _shapes(critic.head.state_dict()):
        raise InputError(
            f"{folder}: the critic has another rank than algorithm.critic_rank; use the "
            "config.yaml of the run that wrote it"
        )
    set_peft_model_state_dict(model, adapter, adapter_name=CRITIC)
    critic.head.load_state_dict(head)


def load_training(folder: Path) -> dict[str, Any]:
    """What `Progress.training` was.

    Raises:
        InputError: Missing or damaged.
    """
    training = _read_state(folder)["training"]
    if not isinstance(training, dict):
        raise _damaged(folder / STATE)
    return training


def load_optimizer(optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Restore the optimiser's moments, in the order of its parameters.

    Raises:
        InputError: Missing or damaged, or of other parameters; the optimiser is then unchanged.
    """
    file = folder / OPTIMIZER
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in _read_tensors(file).items():
        index, _, name = key.partition(".")
        if not index.isdecimal() or int(index) >= len(parameters):
            raise _damaged(file)
        if tensor.dim() and tensor.shape != parameters[int(index)].shape:
            raise _damaged(file)
        state.setdefault(int(index), {})[name] = tensor
    current = optimizer.state_dict()
    optimizer.load_state_dict({"state": state, "param_groups": current["param_groups"]})


def _share(folder: Path, mode: int) -> None:
    """Give all files one mode: safetensors makes its own readable by nobody else."""
    for file in folder.rglob("*.safetensors"):
        file.chmod(mode)


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    return {
        f"{index}.{name}": value.contiguous()
        for index, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
        if value is not None  # SGD's momentum buffer, where there is no momentum
    }


def _shapes(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def _base_fingerprint(policy: SearchPolicy) -> str:
    return fingerprint(policy.base_state())


def _read_state(folder: Path) -> dict[str, Any]:
    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        texts = {key: str(state[key]) for key in ("base_model", "base_fingerprint")}
        return {"step": int(state["step"]), "training": state.get("training"), **texts}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder}: not a checkpoint (no usable {STATE}); give a run folder or one of its "
            "checkpoints/step-... folders"
        ) from error


def _read_alpha(folder: Path) -> float:
    file = folder / ADAPTER_CONFIG
    try:
        return float(json.loads(file.read_text(encoding="utf-8"))["lora_alpha"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(file) from error


def _read_tensors(file: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise _damaged(file) from error


def _damaged(file: Path) -> InputError:
    return InputError(f"{file}: missing or damaged; use an older checkpoint")
