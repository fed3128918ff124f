"""Uniform: shuffled passes over all questions, every group kept.

What the recipes of Search-R1 (arXiv:2503.09516) do: each question once per epoch, in an order drawn
anew for each epoch from the run's seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..sampler import Sampler
from ..seeding import question_index


@dataclass(frozen=True)
class Config:
    """Uniform sampling has no constants."""


def build(config: Config, total: int, seed: int) -> Sampler:
    """Over `total` questions, with the run's seed."""
    return Uniform(total, seed)


class Uniform:
    """Remembers nothing: a step's questions depend on its number alone."""

    rounds = 1

    def __init__(self, total: int, seed: int) -> None:
        self._total = total
        self._seed = seed

    def draw(self, count: int, step: int) -> list[int]:
        """The step's place in the shuffled passes; every step draws the same number."""
        first = (step - 1) * count
        return [question_index(first + i, self._total, self._seed) for i in range(count)]

    def observe(self, questions: Sequence[int], returns: Sequence[Sequence[float]]) -> list[bool]:
        """Keep all."""
        return [True] * len(questions)

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Nothing to load."""
