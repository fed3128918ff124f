r"""Search-o1: agentic search with reason-in-documents (arXiv:2501.05366).

The model reasons and may interrupt itself with a query between special marks; what is found is not
shown to it but first digested by the same model in a conversation of its own, and only that digest
goes on in its chain of thought. The answer is what it boxes. Marks as published, instructions in
our words.
"""

from dataclasses import dataclass

from envs.types import Question

from ..methods import Method, Prompted, Script, Setting, answer, ask, assistant, search, user
from ..replies import final_answer, how_to_answer

_QUERY, _QUERY_END = "<|begin_search_query|>", "<|end_search_query|>"
_RESULT, _RESULT_END = "<|begin_search_result|>", "<|end_search_result|>"
_INSTRUCTION = (
    "Answer the question step by step. Whenever you lack a fact, write "
    f"{_QUERY} your query {_QUERY_END}; what is known about it then follows between "
    f"{_RESULT} and {_RESULT_END}. When you are done, write the final answer as \\boxed{{answer}}."
)
_DIGEST = (
    "Someone is answering a question step by step and has just made a search. From the documents "
    "found, write down what helps their next step, in one or two sentences; if nothing does, write "
    '"No helpful information found."'
)


@dataclass(frozen=True)
class Config:
    """No settings: env.max_turns bounds the searches, env.top_k the passages of each."""


def build(config: Config, setting: Setting) -> Method:
    """The method."""
    return Prompted(_play)


def _play(question: Question) -> Script:
    asked = user(f"{_INSTRUCTION} {how_to_answer(question)}\n\nQuestion: {question.prompt}")
    said, last = "", False
    while True:
        so_far = (assistant(said),) if said else ()
        part = yield from ask(asked, *so_far, stop=(_QUERY_END,))
        _, begun, query = part.removesuffix(_QUERY_END).rpartition(_QUERY)
        if last or not begun or _QUERY_END in query:
            break
        # Some servers leave off the mark at which they stopped.
        said += part if part.endswith(_QUERY_END) else part + _QUERY_END
        seen = yield from search(query.strip(), thought=part)
        context = f"Reasoning so far: {said}\n\nQuery: {query.strip()}\n\nDocuments: {seen.text}"
        digest = yield from ask(user(f"{_DIGEST}\n\nQuestion: {question.text}\n\n{context}"))
        said += f"\n\n{_RESULT} {digest.strip()} {_RESULT_END}\n\n"
        last = seen.last
    yield from answer(final_answer(part), thought=part)
