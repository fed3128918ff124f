"""`trl`: a whole step of ours against one of TRL's GRPOTrainer, which does the same work."""

import argparse
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from transformers import PreTrainedModel

from agents.model_options import ModelOptions
from agents.models import load_base
from benchmarks import resident
from retrieval.errors import InputError

from . import sides
from .ours import Stepper, endless_policy, model_options
from .task import MULTI_TURN, SINGLE_TURN, Shape, Task, build_task

TASKS = {"multi": MULTI_TURN, "single": SINGLE_TURN}
# Ours over TRL's: speed, peak memory.
TARGETS = {"multi": (">= 3", "<= 0.6"), "single": (">= 2", "")}
SIDES = ("ours", "trl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `trl`."""
    parser.add_argument("--task", choices=TASKS, default="multi")
    parser.add_argument("--steps", type=int, default=3, help="Rollout batches that count.")
    parser.add_argument("--optimizer-steps", type=int, default=1, help="Of a rollout batch.")
    parser.add_argument("--questions", type=int, help="Instead of the task's.")
    parser.add_argument("--group-size", type=int, help="Instead of the task's.")
    parser.add_argument("--microbatch-tokens", type=int, default=2048)
    parser.add_argument(
        "--recompute",
        choices=("neither", "trl", "both"),
        default="neither",
        help="Whose activations are computed again for the backward pass (TRL's default: its own).",
    )
    sides.add_side(parser, SIDES)


def run(args: argparse.Namespace, argv: Sequence[str]) -> dict[str, Any]:
    """Measure both sides, print and give the comparison; or measure the side that is asked for."""
    shape = _shape(args)
    if args.side is not None:
        return _measure(args, shape).plain()
    with sides.scratch() as folder:
        found = sides.run_both(argv, SIDES, Path(folder))
    ours, trl = (found[side] for side in SIDES)
    ratios = {"speed": trl.median / ours.median, **sides.memory_ratios(ours, trl)}
    _print(args, shape, found)
    speed, memory = TARGETS[args.task]
    print(sides.against("speed, ours over TRL's", ratios["speed"], speed))
    print(sides.against("peak memory", ratios["memory"], memory))
    print(sides.against("beyond what was loaded", ratios["memory_beyond_loaded"]))
    measured = {side: found[side].plain() for side in SIDES}
    return {"shape": asdict(shape), **measured, "ratios": ratios}


def _shape(args: argparse.Namespace) -> Shape:
    given = {"questions": args.questions, "group_size": args.group_size}
    changed = {name: value for name, value in given.items() if value is not None}
    shape = replace(TASKS[args.task], **changed)
    if args.steps < 1 or args.optimizer_steps < 1:
        raise InputError("--steps, --optimizer-steps: give at least 1")
    if shape.episodes % args.optimizer_steps:
        raise InputError(
            f"--optimizer-steps: {args.optimizer_steps} do not divide {shape.episodes} episodes; "
            "TRL wants as many in each"
        )
    return shape


def _measure(args: argparse.Namespace, shape: Shape) -> sides.Measured:
    recompute = args.recompute == "both" or (args.side == "trl" and args.recompute == "trl")
    options = model_options(args.model, args.layers, recompute)
    if args.side == "ours":
        policy = endless_policy(options)
        task = build_task(shape, policy.tokenizer)
        stepper = Stepper(policy, task, args.optimizer_steps, args.microbatch_tokens)
        measured = measure_ours(stepper, args.steps)
    else:
        base, tokenizer = load_base(options.name, torch.float32, torch.device("cpu"))
        with torch.no_grad():  # weights are read from the disk when they are first used
            base(input_ids=torch.tensor([[1]]))
        task = build_task(shape, tokenizer)
        measured = _measure_trl(args, task, base, options)
    counts = {"generated_tokens": task.generated_tokens, "trained_tokens": task.trained_tokens}
    return replace(measured, told={**measured.told, **counts})


def measure_ours(stepper: Stepper, steps: int) -> sides.Measured:
    """Take a step that warms memory up, and then `steps` more."""
    loaded = resident.read("VmRSS")
    resident.forget_peak()
    taken = [stepper.step(step) for step in tqdm(range(steps + 1), "ours", unit="step")][1:]
    told = {"sampling_seconds": [seconds.sampling for seconds in taken]}
    whole = [seconds.sampling + seconds.update for seconds in taken]
    return sides.Measured(whole, resident.read("VmHWM"), loaded, told)


def _measure_trl(
    args: argparse.Namespace, task: Task, base: PreTrainedModel, options: ModelOptions
) -> sides.Measured:
    try:
        from . import trl_side
    except ImportError as error:
        raise InputError(
            f"trl: {error}; run `pip install -r requirements-dev.txt`, which holds the other side"
        ) from error
    rows = trl_side.rows_of(task, args.optimizer_steps, args.microbatch_tokens)
    with warnings.catch_warnings():
        # What of TRL and transformers is new or will go is nothing to act on here.
        warnings.filterwarnings("ignore", "You are using 'environment_factory'", UserWarning)
        warnings.filterwarnings("ignore", category=FutureWarning)
        return trl_side.measure(task, base, options, args.steps, args.optimizer_steps, rows)


def _print(args: argparse.Namespace, shape: Shape, found: dict[str, sides.Measured]) -> None:
    told = found["trl"].told
    print(
        f"{args.task}-turn: {shape.questions} questions x {shape.group_size}, {shape.turns} turns "
        f"of {shape.tokens} tokens; {told['generated_tokens']} tokens generated and "
        f"{told['trained_tokens']} trained a step, {args.optimizer_steps} optimiser steps, "
        f"activations recomputed: {args.recompute}"
    )
    print(
        f"medians of {args.steps} steps after one; micro-batches of {args.microbatch_tokens} "
        f"tokens, TRL's of {told['microbatch_rows']} episodes"
    )
    for side, measured in found.items():
        tokens = measured.told["generated_tokens"] + measured.told["trained_tokens"]
        sampling = statistics.median(measured.told["sampling_seconds"])
        print(
            f"{side:>6} {measured.line()}; sampling {sampling:.2f} s; "
            f"{tokens / measured.median:.0f} generated and trained tokens/s"
        )
