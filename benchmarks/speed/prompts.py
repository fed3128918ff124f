"""`prompts`: an update that passes each prompt once for its rows, against one of whole rows."""

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch
from tqdm import tqdm

from agents.types import Batch
from retrieval.errors import InputError

from . import sides
from .ours import Stepper, endless_policy, model_options
from .task import build_task
from .update import CLOSE, gradient, max_relative_difference, spread
from .whole_step import TASKS

NAMES = {True: "once", False: "whole"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `prompts`."""
    parser.add_argument("--task", choices=TASKS, default="single", help="As of `trl`.")
    parser.add_argument("--repeats", type=int, default=3, help="Updates of each kind.")
    parser.add_argument("--microbatch-tokens", type=int, default=2048)
    parser.set_defaults(side=None)


def run(args: argparse.Namespace, argv: Sequence[str]) -> dict[str, Any]:
    """Train on one rollout batch in turns; print and give the seconds and how gradients differ."""
    if args.repeats < 1:
        raise InputError("--repeats: give at least 1")
    policy = endless_policy(model_options(args.model, args.layers))
    spread(policy)
    task = build_task(TASKS[args.task], policy.tokenizer)
    stepper = Stepper(policy, task, 1, args.microbatch_tokens)
    seconds: dict[bool, list[float]] = {shares: [] for shares in NAMES}
    gradients = {}
    with policy.trunk.keeping():  # as a step of train.py does
        batch = stepper.play(0)
        for repeat in tqdm(range(args.repeats + 1), unit="repeat", leave=False):
            for shares in NAMES:
                policy.shares_prompts = shares
                taken = _timed(stepper, batch)
                gradients[shares] = gradient(policy)
                if repeat:  # the first one warms memory up
                    seconds[shares].append(taken)
    medians = {NAMES[shares]: statistics.median(taken) for shares, taken in seconds.items()}
    apart = max_relative_difference(gradients[True], gradients[False])
    print(
        f"{args.task}-turn, {task.trained_tokens} tokens, "
        f"{task.passed_tokens} with each prompt once; "
        f"micro-batches of {args.microbatch_tokens}; medians of {args.repeats} updates after one"
    )
    print(f"{'once':>6} {medians['once']:.2f} s\n{'whole':>6} {medians['whole']:.2f} s")
    print(sides.against("speed, once over whole", medians["whole"] / medians["once"]))
    print(f"largest relative difference of the gradients: {apart:.1e} (at most {CLOSE:.0e})")
    if not apart <= CLOSE:
        raise RuntimeError("the gradients differ")
    return {
        "seconds": {NAMES[shares]: taken for shares, taken in seconds.items()},
        "medians": medians,
        "largest_relative_difference": apart,
    }


def _timed(stepper: Stepper, batch: Batch) -> float:
    """Seconds of an update; the weights are as before, so that the next one does the same."""
    weights = stepper.policy.trainable_parameters()
    before = [weight.detach().clone() for weight in weights]
    began = time.perf_counter()
    stepper.update(batch, 0)
    taken = time.perf_counter() - began
    with torch.no_grad():
        for weight, value in zip(weights, before, strict=True):
            weight.copy_(value)
    return taken
