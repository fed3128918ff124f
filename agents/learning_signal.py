"""What an update learns from: a rollout batch, and what the algorithm made of it."""

from dataclasses import dataclass

from torch import Tensor

from .types import Batch


@dataclass(frozen=True, slots=True)
class Signal:
    """What is learnt from: trajectories and, for each of their tokens, what to make of it.

    Attributes:
        batch: B trajectories of T tokens.
        advantages: (B, T), constant.
        targets: (B, T), what the critic's values should be; None without a critic.
    """

    batch: Batch
    advantages: Tensor
    targets: Tensor | None

    def select(self, rows: Tensor) -> "Signal":
        """The given rows ((N,) int64), padding trimmed."""
        part = self.batch.select(rows)
        targets = None if self.targets is None else trimmed(self.targets[rows], part)
        return Signal(part, trimmed(self.advantages[rows], part), targets)


def trimmed(values: Tensor, part: Batch) -> Tensor:
    """A (B, T) tensor cut to the width of the selection it belongs to."""
    return values[:, : part.input_ids.shape[1]]
