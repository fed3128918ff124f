"""Supervised fine-tuning (behaviour cloning): -log pi on the tokens of demonstrations.

Every action token of every demonstration counts the same (token mean). The rewards are not looked
at: keep only the episodes worth imitating before they come here (rejection sampling keeps reward =
1).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..algorithm import Algorithm, Terms
from ..losses import token_mean_weights
from ..types import Batch


@dataclass(frozen=True, slots=True)
class Config:
    """Behaviour cloning has no constants."""


def build(config: Config) -> Algorithm:
    """Behaviour cloning."""

    def advantage(batch: Batch) -> Tensor:
        return batch.action_mask.float()

    def loss(logprobs: Tensor, batch: Batch, advantages: Tensor) -> Terms:
        likelihood = torch.where(batch.action_mask, logprobs, torch.zeros_like(logprobs))
        return Terms(-likelihood * advantages, torch.zeros_like(batch.action_mask))

    return Algorithm(advantage, loss, token_mean_weights)
