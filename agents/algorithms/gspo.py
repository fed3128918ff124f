"""GSPO: GRPO whose ratio is that of the whole sequence.

arXiv:2507.18071, Eq. 5 and 7: s_i = exp(1/|y_i| sum_t log w_t), clipped as one; the band is much
narrower than a token's, for a mean moves little.
"""

from dataclasses import dataclass, replace

from ..algorithm import Algorithm
from . import grpo


@dataclass(frozen=True)
class Config(grpo.Config):
    """GSPO's constants; the band is that of the paper's experiments."""

    clip_low: float = 3e-4
    clip_high: float = 4e-4


def build(config: Config) -> Algorithm:
    """GSPO with the given constants."""
    return replace(grpo.build(config), loss=config.sequence_loss)
