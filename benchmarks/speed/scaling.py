"""`scaling`: how a step's seconds grow with episodes, turns, observations and adapted layers."""

import argparse
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tqdm import tqdm

from agents.policy import SearchPolicy
from retrieval.errors import InputError

from .law import Law, best
from .ours import Seconds, Stepper, endless_policy, model_options
from .task import Shape, Task, build_task

BASE = Shape(questions=2, group_size=4, turns=2, tokens=16)
# One at a time, around the base.
VARIED: dict[str, tuple[int, ...]] = {
    "questions": (1, 2, 4, 8),
    "turns": (1, 2, 3, 4),
    "top_k": (1, 2, 4, 8),
}
SIXTHS = (1, 2, 4, 6)  # of the blocks are adapted
# The laws that are tried: a constant or the number of forward passes beside the tokens.
SAMPLING = (
    ("1", "tokens read", "tokens decoded"),
    ("decoding passes", "tokens read", "tokens decoded"),
)
UPDATE = (
    ("1", "passed tokens x adapted share", "tokens decoded"),
    ("passed tokens", "passed tokens x adapted share", "tokens decoded"),
)


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement.

    Attributes:
        varied: What differs from the base; "" for the base itself.
        shape: What was played.
        layers: Adapted layers.
        quantities: What laws may depend on.
        seconds: Medians.
    """

    varied: str
    shape: Shape
    layers: int
    quantities: dict[str, float]
    seconds: Seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `scaling`."""
    parser.add_argument("--repeats", type=int, default=2, help="Steps of each point.")
    parser.add_argument("--microbatch-tokens", type=int, default=2048)
    parser.set_defaults(side=None)


def run(args: argparse.Namespace, argv: Sequence[str]) -> dict[str, Any]:
    """Measure all points; print and give the table and the laws."""
    if args.repeats < 1:
        raise InputError("--repeats: give at least 1")
    measured = Measurer(args.model, args.repeats, args.microbatch_tokens)
    depth = measured.policy(args.layers).num_layers
    with tqdm(list(plan(args.layers or depth, depth)), unit="point", leave=False) as bar:
        points = [measured.point(*place) for place in bar]
    print(table(points))
    laws = laws_of(points)
    for name, law in laws.items():
        print(f"{name}: {law}")
    return {
        "points": [asdict(point) for point in points],
        "laws": {name: asdict(law) for name, law in laws.items()},
    }


class Measurer:
    """Takes steps of any shape; the policy is built again only when other layers are adapted."""

    def __init__(self, model: str, repeats: int, microbatch_tokens: int) -> None:
        """Build nothing yet.

        Args:
            model: Name of the base model.
            repeats: Steps of each point.
            microbatch_tokens: Of an update.
        """
        self._model = model
        self._repeats = repeats
        self._microbatch_tokens = microbatch_tokens
        self._policies: dict[int, SearchPolicy] = {}
        self._warm: set[int] = set()

    def policy(self, layers: int) -> SearchPolicy:
        """That with so many adapted layers; 0 for all."""
        if layers not in self._policies:
            self._policies.clear()  # one in memory at a time
            self._policies[layers] = endless_policy(model_options(self._model, layers))
        return self._policies[layers]

    def point(self, varied: str, shape: Shape, layers: int) -> Point:
        """Measure one point; a policy's first step warms memory up and does not count."""
        first = layers not in self._warm
        policy = self.policy(layers)
        task = build_task(shape, policy.tokenizer)
        stepper = Stepper(policy, task, 1, self._microbatch_tokens)
        if first:
            stepper.step(0)
            self._warm = {layers}
        steps = [stepper.step(seed) for seed in range(self._repeats)]
        seconds = Seconds(
            statistics.median(step.sampling for step in steps),
            statistics.median(step.update for step in steps),
        )
        adapted = (layers or policy.num_layers) / policy.num_layers
        return Point(varied, shape, layers, quantities_of(task, adapted), seconds)


def plan(layers: int, depth: int) -> Iterator[tuple[str, Shape, int]]:
    """What is measured: the base, and around it what varies, shape and layers.

    Args:
        layers: Adapted layers of the base.
        depth: Blocks of the model.
    """
    yield "", BASE, layers
    for name, values in VARIED.items():
        for value in values:
            if value != getattr(BASE, name):
                yield name, replace(BASE, **{name: value}), layers
    for value in sorted({max(1, depth * sixths // 6) for sixths in SIXTHS} - {layers}):
        yield "layers", BASE, value


def quantities_of(task: Task, adapted: float) -> dict[str, float]:
    """What laws may depend on.

    Args:
        task: What is played.
        adapted: Share of the blocks that are adapted.
    """
    shape, passed = task.shape, task.passed_tokens
    return {
        "tokens read": task.read_tokens,
        "tokens decoded": task.generated_tokens,
        "decoding passes": shape.turns * shape.tokens,
        "tokens of an observation": task.observation_tokens,
        "passed tokens": passed,
        "passed tokens x adapted share": passed * adapted,
    }


def laws_of(points: Sequence[Point]) -> dict[str, Law]:
    """Of sampling and of the update, the candidate that explains most."""
    rows = [point.quantities for point in points]
    return {
        "sampling": best(rows, [point.seconds.sampling for point in points], SAMPLING),
        "update": best(rows, [point.seconds.update for point in points], UPDATE),
    }


def table(points: Sequence[Point]) -> str:
    """The measurements as Markdown."""
    lines = [
        "| varied | episodes | turns | observation | layers | read | decoded | passed | "
        "sampling s | update s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for point in points:
        cells = [
            point.varied or "base",
            point.shape.episodes,
            point.shape.turns,
            round(point.quantities["tokens of an observation"]),
            point.layers or "all",
            *(point.quantities[f"tokens {done}"] for done in ("read", "decoded")),
            point.quantities["passed tokens"],
            f"{point.seconds.sampling:.2f}",
            f"{point.seconds.update:.2f}",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)
