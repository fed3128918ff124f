"""REINFORCE++: returns standardised over the batch in place of a critic or groups.

arXiv:2501.03262: the token's advantage is the undiscounted sum of rewards from it on (a KL in the
reward included, `penalty.name: kl` with `penalty.place: reward`), standardised over all action
tokens of the batch; PPO's clip; mean over all tokens.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .. import bounds
from ..advantages import gae, whiten
from ..algorithm import Algorithm
from ..clipping import Clip
from ..losses import token_mean_weights
from ..types import Batch


@dataclass(frozen=True)
class Config(Clip):
    """REINFORCE++'s constants.

    Attributes:
        whiten_eps: Added to the standard deviation.
    """

    whiten_eps: float = 1e-8

    def __post_init__(self) -> None:
        Clip.__post_init__(self)
        bounds.at_least(self, 0, "whiten_eps")


def build(config: Config) -> Algorithm:
    """REINFORCE++ with the given constants."""

    def advantage(batch: Batch) -> Tensor:
        rewards, mask = batch.token_rewards, batch.action_mask
        # Without values and discount, GAE is the sum of the rewards still to come.
        returns = gae(rewards, torch.zeros_like(rewards), mask, gamma=1.0, lam=1.0)
        return whiten(returns, mask, config.whiten_eps)

    return Algorithm(advantage, config.token_loss, token_mean_weights)
