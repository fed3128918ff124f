"""Retrieval-augmented generation: one search with the question, then the answer alone.

The standard reader of arXiv:2005.11401 with an instruction-tuned model. The query is the question
without its options: no option can steer what is found.
"""

from dataclasses import dataclass

from envs.types import Question

from ..methods import Method, Prompted, Script, Setting, answer, ask, search, user
from ..replies import final_answer, how_to_answer, shown


@dataclass(frozen=True)
class Config:
    """No settings: env.top_k says how many passages are read."""


def build(config: Config, setting: Setting) -> Method:
    """The method."""

    def play(question: Question) -> Script:
        seen = yield from search(question.text)
        passages = shown(hit.passage for hit in seen.hits)
        prompt = f"{passages}\n\n{how_to_answer(question)}\n\nQuestion: {question.prompt}"
        reply = yield from ask(user(prompt))
        yield from answer(final_answer(reply))

    return Prompted(play, turns=2)
