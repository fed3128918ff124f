"""GRPO: group-relative advantages, token ratios, per-sequence mean.

DeepSeekMath, arXiv:2402.03300, Eq. 3 with the outcome advantage of its section 4.1.2:
A_i = (R_i - mean) / (std + eps) over the samples of one prompt, the same on every token of sample
i; loss = -1/G sum_i 1/|y_i| sum_t min(w_t A_i, clip(w_t, 1 - eps, 1 + eps) A_i) + beta k3.

Assumes whole groups in a batch. The std is the population's; a group of equal rewards gives exactly
0.
"""

from dataclasses import dataclass

from torch import Tensor

from .. import bounds
from ..advantages import broadcast, standardize_within
from ..algorithm import Algorithm, Terms
from ..losses import clipped_surrogate, ratio, sequence_mean_weights
from ..types import Batch


@dataclass(frozen=True, slots=True)
class Config:
    """GRPO's constants.

    Attributes:
        clip_eps: Half-width of the clip band around ratio 1.
        kl_coef: Weight of the k3 KL to the base model (beta); 0 drops the term.
        std_eps: Added to the group's standard deviation.
    """

    clip_eps: float = 0.2
    kl_coef: float = 0.0
    std_eps: float = 1e-8

    def __post_init__(self) -> None:
        bounds.positive(self, "clip_eps")
        bounds.at_least(self, 0, "kl_coef", "std_eps")


def build(config: Config) -> Algorithm:
    """GRPO with the given constants."""

    def advantage(batch: Batch) -> Tensor:
        scores = standardize_within(batch.returns, batch.group_ids, eps=config.std_eps)
        return broadcast(scores, batch.action_mask)

    def loss(logprobs: Tensor, batch: Batch, advantages: Tensor) -> Terms:
        ratios = ratio(logprobs, batch.old_logprobs, batch.action_mask)
        return Terms(*clipped_surrogate(ratios, advantages, config.clip_eps, config.clip_eps))

    return Algorithm(advantage, loss, sequence_mean_weights, kl_coef=config.kl_coef)
