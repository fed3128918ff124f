"""Dynamic: groups of equal rewards are dropped and others drawn in their place.

DAPO's dynamic sampling (arXiv:2503.14476, Eq. 11): such a group has no advantage. Bounded by a
number of rounds, after which the step trains on the groups it has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import bounds
from ..sampler import Sampler
from ..seeding import question_index


@dataclass(frozen=True)
class Config:
    """The constant of dynamic sampling.

    Attributes:
        rounds: The most rounds of drawing and playing per step.
    """

    rounds: int = 3

    def __post_init__(self) -> None:
        bounds.at_least(self, 1, "rounds")


def build(config: Config, total: int, seed: int) -> Sampler:
    """Over `total` questions, with the run's seed."""
    return Dynamic(total, seed, config.rounds)


class Dynamic:
    """Remembers how many questions it has drawn."""

    def __init__(self, total: int, seed: int, rounds: int) -> None:
        self.rounds = rounds
        self._total = total
        self._seed = seed
        self._drawn = 0

    def draw(self, count: int, step: int) -> list[int]:
        """The next `count` of the shuffled passes."""
        first = self._drawn
        self._drawn += count
        return [question_index(first + i, self._total, self._seed) for i in range(count)]

    def observe(self, questions: Sequence[int], returns: Sequence[Sequence[float]]) -> list[bool]:
        """Keep the groups whose returns differ."""
        return [len(set(group)) > 1 for group in returns]

    def state(self) -> dict[str, Any]:
        """The number of draws."""
        return {"drawn": self._drawn}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from that number."""
        self._drawn = int(state["drawn"])
