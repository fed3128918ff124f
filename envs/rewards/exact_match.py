"""Exact match: 1 if the final answer equals an accepted answer after normalisation, else 0.

The outcome reward of Search-R1 (arXiv 2503.09516), with one correction: only the answer of
the last turn is scored, never a tag somewhere in prompt or response. No answer scores 0.
"""

from dataclasses import dataclass

from ..answers import exact_match
from ..types import Episode, Reward


@dataclass(frozen=True)
class Config:
    """Exact match has no settings."""


def build(config: Config) -> Reward:
    """The reward term."""

    def reward(episode: Episode) -> float:
        if episode.answer is None:
            return 0.0
        return float(exact_match(episode.answer, episode.question.answers))

    return reward
