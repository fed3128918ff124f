"""RLOO: each sample's baseline is the mean reward of the others.

arXiv:2402.14740, Eq. 5: A_i = R_i - 1/(G - 1) sum_{j != i} R_j, on every token. With PPO's clip, so
that several optimiser steps per rollout batch are possible; on-policy it is the paper's REINFORCE.
"""

from dataclasses import dataclass

from torch import Tensor

from ..advantages import broadcast, leave_one_out
from ..algorithm import Algorithm
from ..clipping import Clip
from ..losses import sequence_mean_weights
from ..types import Batch


@dataclass(frozen=True)
class Config(Clip):
    """RLOO has no constants but the clip band's."""


def build(config: Config) -> Algorithm:
    """RLOO with the given clip band."""

    def advantage(batch: Batch) -> Tensor:
        return broadcast(leave_one_out(batch.returns, batch.group_ids), batch.action_mask)

    return Algorithm(advantage, config.token_loss, sequence_mean_weights)
