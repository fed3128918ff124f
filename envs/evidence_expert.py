"""An expert for question sets that name their evidence: it looks the evidence up, then answers.

What real questions offer for a cold start: rows of HotpotQA and its relatives name the titles of
the passages that answer them. What the expert thinks between its searches is not known, and so it
says no more than what it looks for.
"""

from dataclasses import dataclass

from .answers import mentions
from .types import Question

QUERY_WORDS = 20  # of a question that is searched for: a vignette would not fit a turn


@dataclass(frozen=True, slots=True)
class EvidenceExpert:
    """Callable as `Dataset.demonstrate`.

    Attributes:
        max_searches: The most searches of a demonstration; at least 1.
    """

    max_searches: int

    def __call__(self, question: Question, stop_early: bool) -> tuple[str, ...]:
        """The texts of the expert's turns: searches, and the first accepted answer.

        It searches for the titles that the question names, then for the others. Where it names
        none, the first search is the question itself, for a title that the agent has read nowhere
        cannot be learnt. `stop_early` changes nothing: what the answer would be one hop earlier is
        not known.
        """
        titles = question.supporting_titles
        named = [title for title in titles if mentions(question.text, title)]
        others = [title for title in titles if title not in named]
        turns = []
        if not named:
            query = " ".join(question.text.split()[:QUERY_WORDS])
            turns.append(_turn("I begin with the question.", "search", query))
            others = others if len(titles) > 1 else []
        turns += [_turn(f"I look for {title}.", "search", title) for title in [*named, *others]]
        answer = question.answers[0]
        end = _turn(f"The answer is {answer}.", "answer", answer)
        return (*turns[: self.max_searches], end)


def _turn(thought: str, tag: str, content: str) -> str:
    return f"<think>{thought}</think>\n<{tag}>{content}</{tag}>"
