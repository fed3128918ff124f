"""PPO: a critic, GAE over action tokens, token ratios.

arXiv:1707.06347, Eq. 7, with GAE (arXiv:1506.02438) as Search-R1 (arXiv:2503.09516) uses it: the
tokens of observations are no steps, and advantages are whitened over the batch. The average is that
of the SORL paper, per trajectory first: J = E[1/|y| sum_t min(w_t A_t, clip(w_t) A_t)].
"""

from dataclasses import dataclass

from torch import Tensor

from .. import bounds
from ..advantages import gae, whiten
from ..algorithm import Algorithm, ValueFunction
from ..clipping import Clip
from ..losses import sequence_mean_weights
from ..types import Batch


@dataclass(frozen=True)
class Config(Clip):
    """PPO's constants.

    Attributes:
        gamma: Discount per action token.
        lam: The lambda of GAE.
        whiten: Standardise the advantages over all action tokens of the rollout batch.
        whiten_eps: Added to their standard deviation.
        value_clip: Half-width of the band around the old value in the value loss.
        critic_lr: The critic's learning rate.
        critic_rank: Rank of the critic's adapter, scaled and placed as the policy's.
    """

    gamma: float = 1.0
    lam: float = 1.0
    whiten: bool = True
    whiten_eps: float = 1e-8
    value_clip: float = 0.5
    critic_lr: float = 1e-4
    critic_rank: int = 16

    def __post_init__(self) -> None:
        Clip.__post_init__(self)
        bounds.share(self, "gamma", "lam")
        bounds.at_least(self, 0, "whiten_eps")
        bounds.positive(self, "value_clip", "critic_lr")
        bounds.at_least(self, 1, "critic_rank")


def build(config: Config) -> Algorithm:
    """PPO with the given constants."""

    def raw(batch: Batch) -> Tensor:
        assert batch.values is not None  # the trainer has the critic of every `ValueFunction`
        mask = batch.action_mask
        return gae(batch.token_rewards, batch.values, mask, config.gamma, config.lam)

    def advantage(batch: Batch) -> Tensor:
        estimate = raw(batch)
        if not config.whiten:
            return estimate
        return whiten(estimate, batch.action_mask, config.whiten_eps)

    def targets(batch: Batch) -> Tensor:
        assert batch.values is not None
        return raw(batch) + batch.values

    value = ValueFunction(targets, config.value_clip, config.critic_lr, config.critic_rank)
    return Algorithm(advantage, config.token_loss, sequence_mean_weights, value)
