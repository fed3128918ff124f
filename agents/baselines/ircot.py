"""IRCoT: a sentence of reasoning and a search with it, in turn (arXiv:2212.10509).

Zero-shot, and so not the paper's few-shot prompts; the rest as there: the first search asks the
question, every next one the newest sentence; passages are collected, at most 15; it ends with a
sentence that states the answer or when the turns run out, and a reader then answers from the
passages.
"""

from dataclasses import dataclass

from envs.types import Question
from retrieval.types import Passage

from ..methods import Method, Prompted, Script, Setting, answer, ask, search, user
from ..replies import conclude, final_answer, first_sentence, shown

_MAX_PASSAGES = 15
_STEP = "Write the next sentence of a step-by-step answer to the question, and nothing else."
_STEP_END = 'If the answer is known, write "So the answer is: " and the answer.'


@dataclass(frozen=True)
class Config:
    """No settings: env.max_turns bounds the searches, env.top_k the passages of each."""


def build(config: Config, setting: Setting) -> Method:
    """The method."""
    return Prompted(_play)


def _play(question: Question) -> Script:
    passages: dict[str, Passage] = {}
    sentences: list[str] = []
    query = question.text
    while True:
        seen = yield from search(query, thought=sentences[-1] if sentences else "")
        passages |= {hit.passage.id: hit.passage for hit in seen.hits}
        passages = dict(list(passages.items())[:_MAX_PASSAGES])
        if seen.last:
            break
        asked = f"{shown(passages.values())}\n\nQuestion: {question.prompt}"
        so_far = " ".join(["Answer so far:", *sentences]) if sentences else ""
        reply = yield from ask(user(f"{asked}\n\n{_STEP} {_STEP_END}\n\n{so_far}"))
        sentences.append(first_sentence(reply))
        if "answer is" in sentences[-1].lower():
            break
        query = sentences[-1] or question.text
    prompt = f"{shown(passages.values())}\n\nQuestion: {question.prompt}\n\n{conclude(question)}"
    reply = yield from ask(user(prompt))
    yield from answer(final_answer(reply), thought=reply)
