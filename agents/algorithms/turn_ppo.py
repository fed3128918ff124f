"""Turn-PPO: PPO whose ratio is that of a whole turn, clipped as one.

SORL (arXiv:2511.20718; "Turn-PPO" in its v1; not arXiv:2512.17008 of that name):
J = E[1/|y| sum_k sum_{t in k} min(w_k A_t, clip(w_k, 1 - eps, 1 + eps) A_t)] with the geometric
mean w_k of a turn's token ratios and token-level GAE. Without clipping each token of a turn moves
by the turn's mean advantage.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from .. import bounds
from ..algorithm import Algorithm
from ..ratios import turn_mean
from ..types import Batch
from . import ppo

POOLING = ("none", "turn_mean")


@dataclass(frozen=True)
class Config(ppo.Config):
    """Turn-PPO's constants.

    Attributes:
        advantage_pooling: "none" as the paper reads: min() then clips token by token, by the sign
            of each token's own advantage. "turn_mean" gives every token its turn's mean advantage.
    """

    advantage_pooling: str = "none"

    def __post_init__(self) -> None:
        ppo.Config.__post_init__(self)
        bounds.one_of(self, "advantage_pooling", POOLING)


def build(config: Config) -> Algorithm:
    """Turn-PPO with the given constants."""
    token_level = ppo.build(config)

    def pooled(batch: Batch) -> Tensor:
        return turn_mean(token_level.advantage(batch), batch.action_mask, batch.turn_ids)

    pool = config.advantage_pooling == "turn_mean"
    advantage = pooled if pool else token_level.advantage
    return replace(token_level, advantage=advantage, loss=config.turn_loss)
