"""DAPO: GRPO with a higher upper clip and a mean over all tokens.

arXiv:2503.14476, Eq. 8: band (1 - 0.2, 1 + 0.28), 1/sum|y_i| sum_i sum_t. Its dynamic sampling,
which drops groups of equal rewards and draws others, is `sampling.name: dynamic`.
"""

from dataclasses import dataclass, replace

from ..algorithm import Algorithm
from ..losses import token_mean_weights
from . import grpo


@dataclass(frozen=True)
class Config(grpo.Config):
    """DAPO's constants."""

    clip_high: float = 0.28


def build(config: Config) -> Algorithm:
    """DAPO with the given constants."""
    return replace(grpo.build(config), weights=token_mean_weights)
