"""Multiple choice: 1 if the final answer names the right option and no other, else 0.

What counts as naming an option is strict (`envs.options.named_options`): an answer that lists the
options, or gives a letter with another option's text, names several and scores 0. This is the
accuracy of MedQA (arXiv 2009.13081) and of the MIRAGE benchmark (arXiv 2402.13178).
"""

from dataclasses import dataclass

from retrieval.errors import InputError

from ..options import option_letter
from ..types import Episode, Reward


@dataclass(frozen=True)
class Config:
    """Multiple choice has no settings."""


def build(config: Config) -> Reward:
    """The reward term; it raises InputError on a question without options."""

    def reward(episode: Episode) -> float:
        question = episode.question
        if not question.options:
            raise InputError(
                f"rewards: 'choice' needs options, question {question.id!r} has none; "
                "use 'exact_match' or 'f1'"
            )
        if episode.answer is None:
            return 0.0
        return float(option_letter(episode.answer, question.options) == question.answers[0])

    return reward
