"""CISPO: the ratio is a bounded weight, and no token loses its gradient.

MiniMax-M1, arXiv:2506.13585, Eq. 4: -sg[min(w_t, cap)] A_i log pi_t, averaged over all tokens.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from .. import bounds
from ..algorithm import Algorithm
from ..losses import Terms, log_likelihood, token_mean_weights, without_clip
from ..ratios import token_ratio
from ..types import Batch
from . import grpo


@dataclass(frozen=True)
class Config:
    """CISPO's constants.

    Attributes:
        cap: Upper bound of the weight.
        std_eps: Added to the group's standard deviation.
    """

    cap: float = 5.0
    std_eps: float = 1e-8

    def __post_init__(self) -> None:
        bounds.positive(self, "cap")
        bounds.at_least(self, 0, "std_eps")


def build(config: Config) -> Algorithm:
    """CISPO with the given constants."""

    def loss(logprobs: Tensor, batch: Batch, advantages: Tensor) -> Terms:
        mask = batch.action_mask
        weight = token_ratio(logprobs, batch.old_logprobs, mask).clamp(max=config.cap).detach()
        return without_clip(-weight * advantages * log_likelihood(logprobs, mask))

    base = grpo.build(grpo.Config(std_eps=config.std_eps))
    return replace(base, loss=loss, weights=token_mean_weights)
