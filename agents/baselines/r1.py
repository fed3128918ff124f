"""Reasoning without search: the tag agent with a single turn, in which it must answer.

The R1 baseline of arXiv:2503.09516, Table 2, when the agent was trained in the same way
(`train.py --env.max_turns 1`).
"""

from dataclasses import dataclass

from ..methods import Method, Setting, TagAgent

DEFAULTS = {"prompt": {"template": "r1"}}


@dataclass(frozen=True)
class Config:
    """No settings: section prompt says what it reads."""


def build(config: Config, setting: Setting) -> Method:
    """The method."""
    return TagAgent(turns=1)
