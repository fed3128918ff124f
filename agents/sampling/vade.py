"""VADE: questions whose success is most uncertain, found with a posterior per question.

arXiv:2511.18902: a Beta posterior of each question's success rate p, a Thompson draw from every
posterior, and the questions with the largest p (1 - p), where a group's rewards vary most. Counts
decay, because the policy moves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import bounds
from ..sampler import Sampler
from ..seeding import Draw, derive


@dataclass(frozen=True)
class Config:
    """VADE's constants.

    Attributes:
        prior: Of successes and of failures, before any is seen.
        decay: What is kept of the counts at every step.
        success: The least return that counts as one.
    """

    prior: float = 1.0
    decay: float = 0.95
    success: float = 1.0

    def __post_init__(self) -> None:
        bounds.positive(self, "prior")
        bounds.share(self, "decay")
        bounds.finite(self, "success")


def build(config: Config, total: int, seed: int) -> Sampler:
    """Over `total` questions, with the run's seed."""
    return Vade(config, total, seed)


class Vade:
    """Counts successes and failures per question."""

    rounds = 1

    def __init__(self, config: Config, total: int, seed: int) -> None:
        self._config = config
        self._seed = seed
        self._counts = np.zeros((2, total))  # successes, failures

    def draw(self, count: int, step: int) -> list[int]:
        """The questions with the largest drawn p (1 - p); none twice unless there are too few."""
        self._counts *= self._config.decay
        random = np.random.default_rng(derive(self._seed, Draw.THOMPSON, step))
        chance = random.beta(*(self._counts + self._config.prior))
        order = np.argsort(-chance * (1 - chance), kind="stable")
        return [int(order[i % len(order)]) for i in range(count)]

    def observe(self, questions: Sequence[int], returns: Sequence[Sequence[float]]) -> list[bool]:
        """Count; keep all."""
        for question, group in zip(questions, returns, strict=True):
            won = sum(value >= self._config.success for value in group)
            self._counts[:, question] += won, len(group) - won
        return [True] * len(questions)

    def state(self) -> dict[str, Any]:
        """The counts of the questions that have any."""
        seen = np.flatnonzero(self._counts.any(axis=0))
        return {"counts": [[int(i), *self._counts[:, i].tolist()] for i in seen]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from these counts."""
        self._counts[:] = 0
        for question, won, lost in state["counts"]:
            self._counts[:, int(question)] = won, lost
