"""SO-PPO: Turn-PPO with SORL's normaliser ("ST-PPO" in the paper's first version).

SORL (arXiv:2511.20718): turn-level ratios, and grad J / ||C||_2 with C the gradient at the clipped
tokens; see `agents/normaliser.py` for what the paper leaves open and what is offered.
"""

from dataclasses import dataclass, replace

from ..algorithm import Algorithm
from ..normaliser import Normaliser
from . import turn_ppo


@dataclass(frozen=True)
class Config(turn_ppo.Config, Normaliser):
    """The constants of Turn-PPO and of the normaliser."""

    def __post_init__(self) -> None:
        turn_ppo.Config.__post_init__(self)
        Normaliser.__post_init__(self)


def build(config: Config) -> Algorithm:
    """SO-PPO with the given constants."""
    return replace(turn_ppo.build(config), normaliser=config)
