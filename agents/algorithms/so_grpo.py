"""SO-GRPO: GRPO with SORL's normaliser.

SORL (arXiv:2511.20718): group-relative advantages on every token, token ratios, and
grad J / ||C||_2 with C the gradient at the clipped tokens; see `agents/normaliser.py`.
"""

from dataclasses import dataclass, replace

from ..algorithm import Algorithm
from ..normaliser import Normaliser
from . import grpo


@dataclass(frozen=True)
class Config(grpo.Config, Normaliser):
    """The constants of GRPO and of the normaliser."""

    def __post_init__(self) -> None:
        grpo.Config.__post_init__(self)
        Normaliser.__post_init__(self)


def build(config: Config) -> Algorithm:
    """SO-GRPO with the given constants."""
    return replace(grpo.build(config), normaliser=config)
