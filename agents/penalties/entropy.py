"""Entropy bonus: the mean entropy of the action tokens' distributions, times a coefficient.

A3C (arXiv:1602.01783, section 4): keeps the policy from becoming certain too soon.
"""

from dataclasses import dataclass

from .. import bounds
from ..penalty import Penalty


@dataclass(frozen=True)
class Config:
    """The constant of the bonus.

    Attributes:
        coef: Coefficient, per action token in nats.
    """

    coef: float = 1e-3

    def __post_init__(self) -> None:
        bounds.at_least(self, 0, "coef")


def build(config: Config) -> Penalty:
    """The bonus."""
    return Penalty(entropy=config.coef)
