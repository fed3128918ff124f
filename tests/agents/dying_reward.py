"""A reward term that breaks in process 1 once a file is there, and else pays for vowels."""

import os
from dataclasses import dataclass
from pathlib import Path

from envs.types import Episode, Reward
from tests.agents import shaped_reward

VARIABLE = "TURNGRAD_TEST_DIE_AFTER"  # names the file


@dataclass(frozen=True)
class Config:
    """No settings."""


def build(config: Config) -> Reward:
    """The reward term."""
    pay = shaped_reward.build(shaped_reward.Config())
    file = os.environ.get(VARIABLE)

    def reward(episode: Episode) -> float:
        if file and os.environ.get("RANK") == "1" and Path(file).exists():
            raise RuntimeError("this reward term is broken")
        return pay(episode)

    return reward
