"""GRPO: group-relative advantages, token ratios, per-sequence mean.

DeepSeekMath, arXiv:2402.03300, Eq. 3 with the outcome advantage of its section 4.1.2:
A_i = (R_i - mean) / (std + eps) over the samples of one prompt, the same on every token of sample
i; loss = -1/G sum_i 1/|y_i| sum_t min(w_t A_i, clip(w_t, 1 - eps, 1 + eps) A_i).

Assumes whole groups in a batch. The std is the population's; a group of equal rewards gives exactly
0. The KL to the base model is the `penalty` section's.
"""

from dataclasses import dataclass

from torch import Tensor

from .. import bounds
from ..advantages import broadcast, standardize_within
from ..algorithm import Algorithm
from ..clipping import Clip
from ..losses import sequence_mean_weights
from ..types import Batch


@dataclass(frozen=True)
class Config(Clip):
    """GRPO's constants.

    Attributes:
        std_eps: Added to the group's standard deviation.
    """

    std_eps: float = 1e-8

    def __post_init__(self) -> None:
        Clip.__post_init__(self)
        bounds.at_least(self, 0, "std_eps")


def build(config: Config) -> Algorithm:
    """GRPO with the given constants."""

    def advantage(batch: Batch) -> Tensor:
        scores = standardize_within(batch.returns, batch.group_ids, eps=config.std_eps)
        return broadcast(scores, batch.action_mask)

    return Algorithm(advantage, config.token_loss, sequence_mean_weights)
