"""The options of a clipped surrogate, and its losses by the unit whose ratio is clipped."""

from dataclasses import dataclass

from torch import Tensor

from . import bounds
from .losses import Terms, clipped_surrogate
from .ratios import sequence_ratio, token_ratio, turn_ratio
from .types import Batch


@dataclass(frozen=True)
class Clip:
    """The clip band; algorithms with one inherit these fields.

    Attributes:
        clip_low: The ratio's lower bound is 1 - clip_low.
        clip_high: Its upper bound is 1 + clip_high; above clip_low it is DAPO's clip-higher.
        dual_clip: Bound of the ratio where the advantage is negative (arXiv:1912.09729), at least
            1; null for none.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None

    def __post_init__(self) -> None:
        bounds.positive(self, "clip_low", "clip_high")
        bounds.at_least(self, 1, "dual_clip")

    def surrogate(self, ratios: Tensor, advantages: Tensor) -> Terms:
        """The clipped surrogate of ratios (B, T) and advantages (B, T)."""
        low, high = 1 - self.clip_low, 1 + self.clip_high
        return clipped_surrogate(ratios, advantages, low, high, self.dual_clip)

    def token_loss(self, logprobs: Tensor, batch: Batch, advantages: Tensor) -> Terms:
        """Each token has its own ratio."""
        ratios = token_ratio(logprobs, batch.old_logprobs, batch.action_mask)
        return self.surrogate(ratios, advantages)

    def turn_loss(self, logprobs: Tensor, batch: Batch, advantages: Tensor) -> Terms:
        """The tokens of a turn share the geometric mean of their ratios."""
        ratios = turn_ratio(logprobs, batch.old_logprobs, batch.action_mask, batch.turn_ids)
        return self.surrogate(ratios, advantages)

    def sequence_loss(self, logprobs: Tensor, batch: Batch, advantages: Tensor) -> Terms:
        """All tokens of a trajectory share the geometric mean of their ratios."""
        ratios = sequence_ratio(logprobs, batch.old_logprobs, batch.action_mask)
        return self.surrogate(ratios, advantages)
