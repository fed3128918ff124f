"""BAPO: clip bounds that move until positive advantages have their share of the step.

arXiv:2510.18927 and its public code: on the tokens of an optimiser step, first the lower bound of
the ratio, then the upper one, is raised until the contributions w A of positive advantages are the
wanted share of all. Fewer negative tokens then count, and more positive ones.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .. import bounds
from ..algorithm import Algorithm, Loss
from ..losses import Terms, clipped_surrogate, token_mean_weights
from ..ratios import token_ratio
from ..types import Batch
from . import grpo


@dataclass(frozen=True)
class Config:
    """BAPO's constants; bounds are ratios, not distances from 1.

    Attributes:
        low_start: Lower bound to begin with.
        low_max: The highest lower bound, at most 1.
        low_step: Its step.
        high_start: Upper bound to begin with, at least 1.
        high_max: The highest upper bound.
        high_step: Its step.
        positive_share: The wanted share of positive contributions (rho_0).
        dual_clip: Bound of the ratio where the advantage is negative; null for none.
        std_eps: Added to the group's standard deviation.
    """

    low_start: float = 0.6
    low_max: float = 0.9
    low_step: float = 0.05
    high_start: float = 1.2
    high_max: float = 3.0
    high_step: float = 0.05
    positive_share: float = 0.5
    dual_clip: float | None = None
    std_eps: float = 1e-8

    def __post_init__(self) -> None:
        bounds.positive(self, "low_start", "low_step", "high_step")
        bounds.at_least(self, self.low_start, "low_max")
        bounds.share(self, "low_max", "positive_share")
        bounds.at_least(self, 1, "high_start", "dual_clip")
        bounds.at_least(self, self.high_start, "high_max")
        bounds.at_least(self, 0, "std_eps")

    def candidates(self) -> Iterator[tuple[float, float]]:
        """The pairs of bounds, in the order they are tried."""
        for low in _rungs(self.low_start, self.low_max, self.low_step):
            yield low, self.high_start
        for high in _rungs(self.high_start, self.high_max, self.high_step)[1:]:
            yield self.low_max, high


def build(config: Config) -> Algorithm:
    """BAPO with the given constants."""

    def within(low: float, high: float) -> Loss:
        def loss(logprobs: Tensor, batch: Batch, advantages: Tensor) -> Terms:
            ratios = token_ratio(logprobs, batch.old_logprobs, batch.action_mask)
            return clipped_surrogate(ratios, advantages, low, high, config.dual_clip)

        return loss

    def adapt(logprobs: Tensor, batch: Batch, advantages: Tensor) -> Loss:
        ratios = token_ratio(logprobs, batch.old_logprobs, batch.action_mask)
        gains = torch.where(batch.action_mask, advantages, torch.zeros_like(advantages))
        for low, high in config.candidates():
            if positive_share(ratios, gains, low, high) >= config.positive_share:
                break
        return within(low, high)

    base = grpo.build(grpo.Config(std_eps=config.std_eps))
    start = within(config.low_start, config.high_start)
    return replace(base, loss=start, weights=token_mean_weights, adapt=adapt)


def positive_share(ratios: Tensor, advantages: Tensor, low: float, high: float) -> float:
    """The share of positive contributions among all, each within its bound; 1 if none is negative.

    Args:
        ratios: (B, T).
        advantages: (B, T), 0 where no token is.
        low: Lower bound of ratios with a negative advantage.
        high: Upper bound of ratios with a positive advantage.
    """
    positive = float((ratios.clamp(max=high) * advantages.clamp(min=0)).sum())
    negative = float((ratios.clamp(min=low) * -advantages.clamp(max=0)).sum())
    return positive / (positive + negative) if negative else 1.0


def _rungs(start: float, top: float, step: float) -> list[float]:
    # Rounded, or a sum of steps that falls short of the top by 1e-16 would make one rung more.
    count = math.ceil(round((top - start) / step, 9))
    return [min(start + i * step, top) for i in range(count + 1)]
