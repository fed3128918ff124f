"""The model's own knowledge: it is asked for the answer alone, without search or reasoning."""

from dataclasses import dataclass

from envs.types import Question

from ..methods import Method, Prompted, Script, Setting, answer, ask, user
from ..replies import final_answer, how_to_answer


@dataclass(frozen=True)
class Config:
    """No settings."""


def build(config: Config, setting: Setting) -> Method:
    """The method."""

    def play(question: Question) -> Script:
        reply = yield from ask(user(f"{how_to_answer(question)}\n\nQuestion: {question.prompt}"))
        yield from answer(final_answer(reply))

    return Prompted(play, turns=1)
