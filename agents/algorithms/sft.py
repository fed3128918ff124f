"""Supervised fine-tuning (behaviour cloning): -log pi on the tokens of demonstrations.

Every action token of every demonstration counts the same (token mean). The rewards are not looked
at: keep only the episodes worth imitating before they come here, or use `rejection_sampling`.
"""

from dataclasses import dataclass

from torch import Tensor

from ..algorithm import Algorithm
from ..losses import Terms, log_likelihood, token_mean_weights, without_clip
from ..types import Batch


@dataclass(frozen=True)
class Config:
    """Behaviour cloning has no constants."""


def build(config: Config) -> Algorithm:
    """Behaviour cloning."""

    def advantage(batch: Batch) -> Tensor:
        return batch.action_mask.to(batch.old_logprobs.dtype)

    def loss(logprobs: Tensor, batch: Batch, advantages: Tensor) -> Terms:
        return without_clip(-log_likelihood(logprobs, batch.action_mask) * advantages)

    return Algorithm(advantage, loss, token_mean_weights)
