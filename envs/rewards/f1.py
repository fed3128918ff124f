"""Token F1: overlap of the final answer with the best accepted answer, 0 to 1.

SQuAD's definition (arXiv 1606.05250) with HotpotQA's rule (arXiv 1809.09600): a yes/no answer
earns all or nothing. No answer scores 0. An answer that buries the right words in a passage scores
low but not 0: 1 right word among n scores 2 / (n + 1).
"""

from dataclasses import dataclass

from ..answers import f1
from ..types import Episode, Reward


@dataclass(frozen=True)
class Config:
    """F1 has no settings."""


def build(config: Config) -> Reward:
    """The reward term."""

    def reward(episode: Episode) -> float:
        if episode.answer is None:
            return 0.0
        return f1(episode.answer, episode.question.answers)

    return reward
