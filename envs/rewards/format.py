"""Format: -1 for each turn that did not do what it had to, else 0.

That is an invalid turn, and a last turn without an answer. A turn costs at most 1: a last turn
that is also invalid is not charged twice. Meant as a small-weight companion of an outcome reward,
as the format reward of DeepSeek-R1 (arXiv 2501.12948) is; the sum depends on no answer's content.
"""

from dataclasses import dataclass

from ..types import ActionKind, Episode, Reward, StopReason


@dataclass(frozen=True)
class Config:
    """The penalty is 1; scale it with the weight of the term."""


def build(config: Config) -> Reward:
    """The reward term."""

    def reward(episode: Episode) -> float:
        invalid = episode.steps[-1].action.kind is ActionKind.INVALID
        unanswered = episode.stop_reason is StopReason.TURN_LIMIT
        return -1.0 if invalid or unanswered else 0.0

    return reward
