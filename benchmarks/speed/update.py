"""`update`: our update of the policy against a plain loop that keeps full logits."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from tqdm import tqdm

from agents.algorithm import Algorithm
from agents.algorithms import grpo
from agents.policy import SearchPolicy
from agents.trainer import StepOptions, Trainer
from agents.types import Batch
from benchmarks import resident
from retrieval.errors import InputError

from . import sides
from .ours import LEARNING_RATE, endless_policy, model_options

SIDES = ("ours", "plain")
TURNS, TOKENS = 3, 32  # of which the action mask consists
PROMPT = 64
SPEED, MEMORY = ">= 1.5", "<= 0.5"  # targets
CLOSE = 1e-4  # how far the gradients may be apart
SPREAD = 0.02  # of the adapters' weights: fresh ones leave half of the gradient at 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `update`."""
    parser.add_argument("--rows", type=int, default=4, help="Episodes of an update.")
    parser.add_argument("--microbatch-rows", type=int, default=2)
    parser.add_argument("--length", type=int, default=1024, help="Tokens of an episode.")
    parser.add_argument("--repeats", type=int, default=3, help="Updates that count.")
    sides.add_side(parser, SIDES)


def run(args: argparse.Namespace, argv: Sequence[str]) -> dict[str, Any]:
    """Measure both sides, print and give the comparison; or measure the side that is asked for.

    Raises:
        RuntimeError: The two gradients are not the same.
    """
    _check(args)
    if args.side is not None:
        return _measure(args).plain()
    with sides.scratch() as folder:
        found = sides.run_both(argv, SIDES, Path(folder))
        gradients = [load_file(_gradient_file(Path(folder) / f"{side}.json")) for side in SIDES]
    apart = max_relative_difference(*gradients)
    ours, plain = (found[side] for side in SIDES)
    ratios = {"speed": plain.median / ours.median, **sides.memory_ratios(ours, plain)}
    print(
        f"{args.rows} episodes of {args.length} tokens, {TURNS} turns of {TOKENS} of them sampled; "
        f"micro-batches of {args.microbatch_rows}; medians of {args.repeats} updates after one"
    )
    for side, measured in found.items():
        print(f"{side:>6} {measured.line()}")
    print(sides.against("speed, ours over plain", ratios["speed"], SPEED))
    print(sides.against("peak memory", ratios["memory"], MEMORY))
    print(sides.against("beyond what was loaded", ratios["memory_beyond_loaded"]))
    print(f"largest relative difference of the gradients: {apart:.1e} (at most {CLOSE:.0e})")
    if not apart <= CLOSE:
        raise RuntimeError("the two sides do not compute the same gradient")
    measured = {side: found[side].plain() for side in SIDES}
    return {**measured, "ratios": ratios, "gradient_difference": apart}


def _check(args: argparse.Namespace) -> None:
    if args.rows < 2:
        raise InputError("--rows: GRPO compares episodes; give at least 2")
    if min(args.microbatch_rows, args.repeats) < 1:
        raise InputError("--microbatch-rows, --repeats: give at least 1")
    least = PROMPT + TURNS * TOKENS + TURNS - 1
    if args.length < least:
        raise InputError(f"--length: {args.length}; prompt and turns alone take {least}")


def _measure(args: argparse.Namespace) -> sides.Measured:
    policy = endless_policy(model_options(args.model, args.layers))
    spread(policy)
    update = UPDATES[args.side](policy, args.microbatch_rows)
    batch = make_batch(policy, args.rows, args.length, args.microbatch_rows)
    loaded = resident.read("VmRSS")
    resident.forget_peak()
    seconds = []
    for repeat in tqdm(range(args.repeats + 1), args.side, unit="update"):
        began = time.perf_counter()
        update(batch)
        seconds.append(time.perf_counter() - began)
        if repeat == 0:
            save_file(gradient(policy), _gradient_file(args.out))
    return sides.Measured(seconds[1:], resident.read("VmHWM"), loaded, {})


def _gradient_file(out: Path) -> Path:
    """Where a side leaves its gradient, beside its numbers."""
    return out.with_suffix(".safetensors")


def spread(policy: SearchPolicy) -> None:
    """Move the adapters off their start, the same way in every process."""
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in policy.trainable_parameters():
            weight += SPREAD * torch.randn(weight.shape, generator=random)


def gradient(policy: SearchPolicy) -> dict[str, Tensor]:
    """The gradients of the adapters' weights, by their place."""
    weights = policy.trainable_parameters()
    return {str(place): w.grad.clone() for place, w in enumerate(weights) if w.grad is not None}


def max_relative_difference(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    """The largest difference in a tensor over its largest entry, of all tensors the worst.

    Infinity if not both have the same ones, or if all are 0, which would compare nothing; NaN if
    one has a NaN.
    """
    if ours.keys() != theirs.keys() or not any(bool(values.any()) for values in theirs.values()):
        return float("inf")
    apart = [
        (ours[name] - values).abs().max() / values.abs().max().clamp(min=1e-30)
        for name, values in theirs.items()
    ]
    return float(torch.stack(apart).max())  # unlike Python's max it keeps a NaN


def make_batch(policy: SearchPolicy, rows: int, length: int, microbatch_rows: int) -> Batch:
    """One group of episodes of random tokens: a prompt, three turns, two observations between.

    Every other one is rewarded. The old log-probabilities are the policy's own, as after sampling.
    """
    vocabulary = policy.model.get_input_embeddings().weight.shape[0]
    random = torch.Generator().manual_seed(0)
    ids = torch.randint(vocabulary, (rows, length), generator=random)
    observation = (length - PROMPT - TURNS * TOKENS) // (TURNS - 1)
    turn_ids = torch.full_like(ids, -1)
    for turn in range(TURNS):
        # From the end: what division leaves over goes to the prompt.
        end = length - (TURNS - 1 - turn) * (TOKENS + observation)
        turn_ids[:, end - TOKENS : end] = turn
    actions = turn_ids >= 0
    with torch.no_grad():
        parts = torch.arange(rows).split(microbatch_rows)
        old = torch.cat([policy.logprobs(ids[p], actions[p], 1.0)[0] for p in parts])
    return Batch(
        input_ids=ids,
        attention_mask=torch.ones_like(actions),
        action_mask=actions,
        turn_ids=turn_ids,
        old_logprobs=old,
        rewards=(torch.arange(rows) % 2).float()[:, None],
        group_ids=torch.zeros(rows, dtype=torch.int64),
        strata=torch.zeros(rows, dtype=torch.int64),
    )


class _Side:
    """What takes one optimiser step on a batch."""

    def __init__(self, policy: SearchPolicy, microbatch_rows: int) -> None:
        self._rows = microbatch_rows
        self._policy = policy
        weights = policy.trainable_parameters()
        self._optimizer = torch.optim.AdamW(weights, lr=LEARNING_RATE, weight_decay=0.0)


class Ours(_Side):
    """The trainer's update."""

    def __call__(self, batch: Batch) -> None:
        """Train on the batch."""
        tokens = self._rows * batch.input_ids.shape[1]
        options = StepOptions(1, 1, tokens, max_grad_norm=0.0, temperature=1.0)
        Trainer(self._policy, _grpo(), self._optimizer, options).update(batch, seed=0)


class Plain(_Side):
    """The loop that one writes first: logits of all positions, the same loss."""

    def __call__(self, batch: Batch) -> None:
        """Train on the batch."""
        algorithm = _grpo()
        advantages = algorithm.advantage(batch)
        weights = algorithm.weights(batch.action_mask)
        self._optimizer.zero_grad(set_to_none=True)
        for rows in torch.arange(len(batch)).split(self._rows):
            part = batch.select(rows)
            logprobs = self._logprobs(part.input_ids)
            per_token = algorithm.loss(logprobs, part, advantages[rows]).per_token
            torch.where(part.action_mask, per_token * weights[rows], 0.0).sum().backward()
        self._optimizer.step()

    def _logprobs(self, ids: Tensor) -> Tensor:
        """(B, T) of all tokens; 0 of the first."""
        logits = self._policy.model(input_ids=ids, use_cache=False).logits[:, :-1]
        chosen = logits.log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]
        return torch.nn.functional.pad(chosen, (1, 0))


UPDATES = {"ours": Ours, "plain": Plain}


def _grpo() -> Algorithm:
    return grpo.build(grpo.Config())
