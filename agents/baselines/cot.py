"""Chain of thought: the model reasons before it answers, without search (arXiv:2201.11903).

Zero-shot: the question and an instruction, no worked examples.
"""

from dataclasses import dataclass

from envs.types import Question

from ..methods import Method, Prompted, Script, Setting, answer, ask, user
from ..replies import conclude, final_answer


@dataclass(frozen=True)
class Config:
    """No settings."""


def build(config: Config, setting: Setting) -> Method:
    """The method."""

    def play(question: Question) -> Script:
        reply = yield from ask(user(f"Question: {question.prompt}\n\n{conclude(question)}"))
        yield from answer(final_answer(reply), thought=reply)

    return Prompted(play, turns=1)
