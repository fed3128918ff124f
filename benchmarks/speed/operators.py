"""`profile`: the share of our step that is not the model's own matrix products."""

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function
from tqdm import tqdm

from agents.types import Batch

from .ours import Stepper, endless_policy, model_options
from .task import MULTI_TURN, Shape, build_task

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")
ATTENTION = "aten::_scaled_dot_product"  # begins the names of its kernels, forward and backward
WHOLE = "the whole phase"
BETWEEN = "Python between operators"
TARGET = 0.25  # share outside, at most
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Operator:
    """What an operator took itself, without the operators it calls.

    Attributes:
        name: As the profiler calls it.
        seconds: Of all its calls.
        calls: How many.
    """

    name: str
    seconds: float
    calls: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `profile`."""
    parser.add_argument("--questions", type=int, default=4)
    parser.add_argument("--group-size", type=int, default=MULTI_TURN.group_size)
    parser.add_argument("--turns", type=int, default=MULTI_TURN.turns)
    parser.add_argument("--tokens", type=int, default=MULTI_TURN.tokens, help="Of a turn.")
    parser.add_argument("--microbatch-tokens", type=int, default=2048)
    parser.set_defaults(side=None)


def run(args: argparse.Namespace, argv: Sequence[str]) -> dict[str, Any]:
    """Profile a rollout and an update after one of each; print and give their operators."""
    shape = Shape(args.questions, args.group_size, args.turns, args.tokens)
    policy = endless_policy(model_options(args.model, args.layers))
    stepper = Stepper(policy, build_task(shape, policy.tokenizer), 1, args.microbatch_tokens)
    batches: list[Batch] = []
    phases: dict[str, Callable[[], object]] = {
        "rollout": lambda: batches.append(stepper.play(1)),
        "update": lambda: stepper.update(batches[-1], 1),
    }
    found: dict[str, Any] = {}
    with (
        policy.trunk.keeping(),  # as a step of train.py does
        tqdm(total=2 * len(phases), unit="phase", leave=False) as bar,
    ):
        for name, work in phases.items():
            work()  # warms memory up
            bar.update()
            found[name] = _profiled(name, work)
            bar.update()
    return {"shape": asdict(shape), **found}


def _profiled(name: str, work: Callable[[], object]) -> dict[str, Any]:
    began = time.perf_counter()
    work()
    plain = time.perf_counter() - began
    operators = operators_of(work)
    outside = share_outside(operators)
    total = sum(operator.seconds for operator in operators)
    others = [operator for operator in operators if not is_product(operator.name)]
    others.sort(key=lambda operator: -operator.seconds)
    met = "met" if outside <= TARGET else "missed"
    lines = [
        f"{name}: {outside:.1%} of {total:.2f} s outside matrix products and attention "
        f"(target <= {TARGET:.0%}: {met}); {plain:.2f} s without the profiler"
    ]
    lines += [
        f"  {o.seconds / total:6.1%} {o.seconds:7.2f} s {o.calls:8d} calls  {o.name}"
        for o in others[:SHOWN]
    ]
    tqdm.write("\n".join(lines))
    return {
        "share_outside": outside,
        "seconds": total,
        "seconds_unprofiled": plain,
        "operators": [asdict(operator) for operator in operators],
    }


def operators_of(work: Callable[[], object]) -> list[Operator]:
    """What the operators of some work took, and Python between them, on the calling thread."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler, record_function(WHOLE):
        work()
    return [
        Operator(BETWEEN if e.key == WHOLE else e.key, e.self_cpu_time_total / 1e6, e.count)
        for e in profiler.key_averages()
    ]


def is_product(name: str) -> bool:
    """Whether an operator is a matrix product or an attention kernel."""
    return name in PRODUCTS or name.startswith(ATTENTION)


def share_outside(operators: Iterable[Operator]) -> float:
    """The share of time that is neither a matrix product nor attention."""
    seconds = [(is_product(operator.name), operator.seconds) for operator in operators]
    return sum(s for inside, s in seconds if not inside) / sum(s for _, s in seconds)
