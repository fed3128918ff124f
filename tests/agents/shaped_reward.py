"""A reward plug-in outside envs/rewards, named with dots: the share of vowels in the turn.

The tiny model's turns are noise; this pays some of them more than others, so that there is
something to learn.
"""

from dataclasses import dataclass

from envs.types import Episode, Reward


@dataclass(frozen=True)
class Config:
    """No settings."""


def build(config: Config) -> Reward:
    """The reward term."""

    def reward(episode: Episode) -> float:
        text = episode.steps[-1].action.text
        return sum(text.count(vowel) for vowel in "aeiou") / max(len(text), 1)

    return reward
