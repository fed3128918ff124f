"""Whether a run fits a device: a table, a verdict, and what to change where it does not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch

from retrieval.errors import InputError

from .config import RunConfig
from .devices import device_memory, resolve_device, resolve_dtype
from .memory import Estimate, Item, estimate, keeps_states

GB = 1e9
# What a change costs, for choosing among those that suffice: recomputing a third of an update's
# time, as do frozen blocks; 4 bits some precision and more time; half the tokens or episodes at
# once, a little time.
COSTS = {
    "model.gradient_checkpointing": 1.0,
    "model.quantization": 2.5,
    "optimizer.microbatch_tokens": 0.0,
    "engine.max_episodes": 0.0,
    "engine.keep_states": 1.0,
}
COST_OF_HALF = 0.3


@dataclass(frozen=True, slots=True)
class Device:
    """What a run is planned for.

    Attributes:
        name: In words.
        dtype: That of the base weights on it.
        on_gpu: Whether it is a GPU.
        memory: Bytes of it.
    """

    name: str
    dtype: torch.dtype
    on_gpu: bool
    memory: float


def this_device(config: RunConfig) -> Device:
    """The device that the run would use here.

    Raises:
        InputError: It is not to be had.
    """
    device = resolve_device(config.model.device)
    on_gpu = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if on_gpu else "this machine's free memory"
    dtype = resolve_dtype(config.model.dtype, device)
    return Device(name, dtype, on_gpu, device_memory(device))


def card(config: RunConfig, memory_gb: float) -> Device:
    """A GPU of another machine, with so much memory."""
    planned = "bfloat16" if config.model.dtype == "auto" else config.model.dtype
    dtype = resolve_dtype(planned, torch.device("cpu"))
    return Device(f"a card of {memory_gb:g} GB", dtype, True, memory_gb * GB)


def needs(config: RunConfig, device: Device) -> Estimate:
    """What the run takes on a device."""
    return estimate(config, device.dtype, device.on_gpu)


def in_words(needed: Estimate, device: Device) -> str:
    """What is needed, and what there is."""
    return (
        f"{needed.least / GB:,.2f} GB all the time and {needed.peak / GB:,.2f} GB at most, of "
        f"{device.memory / GB:,.2f} GB ({device.name})"
    )


def remedies(config: RunConfig, device: Device) -> list[str] | None:
    """What to set so that the run fits, at the least cost; None if nothing helps.

    Returns:
        A flag for each option to change; none if it fits as it is.
    """
    for _, flags, changed in sorted(_changes(config, device), key=lambda change: change[0]):
        if needs(changed, device).peak <= device.memory:
            return flags
    return None


def _changes(config: RunConfig, device: Device) -> Iterator[tuple[float, list[str], RunConfig]]:
    """(cost, flags, configuration) of every way to trade memory for time, and for precision."""
    model, optimizer, engine = config.model, config.optimizer, config.engine
    precise = model.quantization != "none" or not device.on_gpu or model.name == "tiny"
    kinds = [m for m in ("none", "nf4") if m == model.quantization or not precise]
    recomputing = [True] if model.gradient_checkpointing else [False, True]
    tokens = _halvings(optimizer.microbatch_tokens, 1)
    episodes = _halvings(engine.options.max_episodes, config.rollout.group_size)
    keeping = [True, False] if keeps_states(config) else [False]
    for again, kind, keep, (i, size), (j, rows) in product(
        recomputing, kinds, keeping, enumerate(tokens), enumerate(episodes)
    ):
        values: dict[str, tuple[Any, Any]] = {
            "model.gradient_checkpointing": (model.gradient_checkpointing, again),
            "model.quantization": (model.quantization, kind),
            "optimizer.microbatch_tokens": (optimizer.microbatch_tokens, size),
            "engine.max_episodes": (engine.options.max_episodes, rows),
            "engine.keep_states": (keeping[0], keep),
        }
        changed = {key: value for key, (old, value) in values.items() if value != old}
        cost = sum(COSTS[key] for key in changed) + COST_OF_HALF * (i + 2 * j)
        yield (
            cost,
            [f"--{key} {str(value).lower()}" for key, value in changed.items()],
            replace(
                config,
                model=replace(model, gradient_checkpointing=again, quantization=kind),
                optimizer=replace(optimizer, microbatch_tokens=size),
                engine=replace(
                    engine,
                    options=replace(engine.options, max_episodes=rows),
                    config=replace(engine.config, **({"keep_states": keep} if keeping[0] else {})),
                ),
            ),
        )


def _halvings(value: int, least: int) -> list[int]:
    """The value and at most five halves of halves, none below `least` but the value itself."""
    return [value, *(v for v in (value >> i for i in range(1, 6)) if v >= least)]


def check(config: RunConfig) -> str | None:
    """Look before a run is built.

    Returns:
        A warning if the run may outgrow its device; None if it fits.

    Raises:
        InputError: It surely does: what is held all the time is too large already.
    """
    device = this_device(config)
    found = needs(config, device)
    if found.peak <= device.memory:
        return None
    what = f"{in_words(found, device)}; {_advice(config, device)}"
    if found.least > device.memory:
        raise InputError(f"model: this run needs {what}")
    return f"this run may need {what}; --dry-run shows the estimate"


def report(config: RunConfig, device: Device) -> tuple[str, bool]:
    """The table of `--dry-run`.

    Returns:
        Its text, and whether the run fits.
    """
    found = needs(config, device)
    fits = found.peak <= device.memory
    rollout, optimizer = config.rollout, config.optimizer
    episodes = rollout.questions_per_step * rollout.group_size
    name = str(device.dtype).removeprefix("torch.")
    held = name if config.model.quantization == "none" else f"{config.model.quantization}, {name}"
    lines = [
        f"model      {config.model.name}: {found.base_parameters:,} parameters, {held}",
        f"trained    {found.trainable_parameters:,} parameters, float32",
        f"a step     {episodes:,} episodes of at most {found.context_tokens:,} tokens, "
        f"{found.step_tokens:,} in all; {optimizer.epochs * optimizer.minibatches} optimiser steps",
        f"{'':29}{'GB':>8}",
        *_rows("always", found.always),
        *_rows("sampling", found.sampling),
        *_rows("training", found.training),
        f"{'peak':29}{found.peak / GB:8.2f}  always, and the larger of sampling and training",
        f"{'device':29}{device.memory / GB:8.2f}  {device.name}",
        "it fits" if fits else f"IT DOES NOT FIT: {_advice(config, device)}",
    ]
    return "\n".join(lines), fits


def _rows(phase: str, items: Sequence[Item]) -> list[str]:
    names = [phase] + [""] * (len(items) - 1)
    return [
        f"{name:11}{item.name:18}{item.bytes / GB:8.2f}  {item.derivation}"
        for name, item in zip(names, items, strict=False)
    ]


def _advice(config: RunConfig, device: Device) -> str:
    changes = remedies(config, device)
    if changes is None:
        return (
            "no setting of memory alone helps; take a smaller model, or lower "
            "env.max_context_tokens or model.lora_last_layers"
        )
    return f"with {' '.join(changes)} it would"
