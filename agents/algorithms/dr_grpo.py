"""Dr. GRPO: GRPO without the two normalisations that bias it.

arXiv:2503.20783: A_i = R_i - mean, not divided by the standard deviation, and a sum over tokens
divided by a constant, not by the trajectory's own length: 1/(G L_max) sum_i sum_t.
"""

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from .. import bounds
from ..advantages import broadcast, center_within
from ..algorithm import Algorithm
from ..clipping import Clip
from ..losses import constant_weights
from ..types import Batch


@dataclass(frozen=True)
class Config(Clip):
    """Dr. GRPO's constants.

    Attributes:
        max_tokens: L_max, the action tokens that an episode may have.
    """

    max_tokens: int = 512

    def __post_init__(self) -> None:
        Clip.__post_init__(self)
        bounds.at_least(self, 1, "max_tokens")


def build(config: Config) -> Algorithm:
    """Dr. GRPO with the given constants."""

    def advantage(batch: Batch) -> Tensor:
        return broadcast(center_within(batch.returns, batch.group_ids), batch.action_mask)

    weights = partial(constant_weights, max_tokens=config.max_tokens)
    return Algorithm(advantage, config.token_loss, weights)
