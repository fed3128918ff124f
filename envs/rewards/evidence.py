"""Evidence: the share of the supporting passages that the episode's searches showed, 0 to 1.

Recall of `Question.supporting_titles` among the titles of all shown hits, paid when the episode
ends, whatever the answer. 0 when the titles are unknown. Titles compare exactly: both sides come
from data, none from the agent. It pays for searching, not for answering: as a reward it wants a
small weight. The supporting facts are those of sets such as HotpotQA (arXiv 1809.09600).
"""

from dataclasses import dataclass

from ..types import Episode, Reward


@dataclass(frozen=True)
class Config:
    """Evidence has no settings."""


def build(config: Config) -> Reward:
    """The reward term."""

    def reward(episode: Episode) -> float:
        wanted = frozenset(episode.question.supporting_titles)
        if episode.stop_reason is None or not wanted:
            return 0.0
        shown = {hit.passage.title for step in episode.steps for hit in step.hits}
        return len(wanted & shown) / len(wanted)

    return reward
