"""S-PPO: token-level PPO with SORL's normaliser, the ablation without turn ratios.

SORL (arXiv:2511.20718): grad J / ||C||_2, C the gradient at the clipped tokens; see
`agents/normaliser.py` for what the paper leaves open and what is offered.
"""

from dataclasses import dataclass, replace

from ..algorithm import Algorithm
from ..normaliser import Normaliser
from . import ppo


@dataclass(frozen=True)
class Config(ppo.Config, Normaliser):
    """The constants of PPO and of the normaliser."""

    def __post_init__(self) -> None:
        ppo.Config.__post_init__(self)
        Normaliser.__post_init__(self)


def build(config: Config) -> Algorithm:
    """S-PPO with the given constants."""
    return replace(ppo.build(config), normaliser=config)
