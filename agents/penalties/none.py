"""None: the algorithm's objective as it is.

What GRPO-style recipes without a reference model use (DAPO, arXiv:2503.14476, section 2.3).
"""

from dataclasses import dataclass

from ..penalty import Penalty


@dataclass(frozen=True)
class Config:
    """No constants."""


def build(config: Config) -> Penalty:
    """No penalty."""
    return Penalty()
