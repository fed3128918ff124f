"""Rejection sampling: clone the agent's own episodes that were rewarded.

-log pi on every action token of the episodes whose return reaches the threshold (the baseline that
Search-R1, arXiv:2503.09516, compares with), averaged over all action tokens of the step, so that a
step with few good episodes is a small one.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from .. import bounds
from ..advantages import broadcast
from ..algorithm import Algorithm
from ..types import Batch
from . import sft


@dataclass(frozen=True)
class Config:
    """The constant of rejection sampling.

    Attributes:
        threshold: The least return of an episode that is kept.
    """

    threshold: float = 1.0

    def __post_init__(self) -> None:
        bounds.finite(self, "threshold")


def build(config: Config) -> Algorithm:
    """Rejection sampling with the given threshold."""

    def advantage(batch: Batch) -> Tensor:
        kept = (batch.returns >= config.threshold).to(batch.old_logprobs.dtype)
        return broadcast(kept, batch.action_mask)

    return replace(sft.build(sft.Config()), advantage=advantage)
