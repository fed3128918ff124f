"""A generation engine that searches for something new, then answers: a plug-in for tests."""

import itertools
from dataclasses import dataclass

from tests.agents.builds import ScriptedEngine


@dataclass(frozen=True)
class Config:
    """No settings."""


def build(config, policy):
    """An engine of that kind."""
    numbers = itertools.count()

    def write(row, turn):
        text = "<answer>a</answer>" if turn else f"<search>{next(numbers)}</search>"
        return policy.encode(text)

    return ScriptedEngine(write)
