"""Prompts and readings that scripted methods share: how to answer, and what a reply answers."""

import re
from collections.abc import Iterable

from envs.types import Question
from retrieval.types import Passage

from .dialects import boxed

_CONCLUSION = re.compile(r"\b(?:answer|conclusion)\s*(?:is\s*:?|:)\s*", re.IGNORECASE)
# A full stop that ends a sentence: not that of "3.5", "J. Smith" or "U.S. Army".
_SENTENCE = re.compile(r"(?<=[a-z0-9)\]][.!?])\s+(?=[A-Z\"'(]|$)")


def how_to_answer(question: Question) -> str:
    """The instruction that says what an answer looks like."""
    if question.options:
        return "Answer with the letter of the right option alone."
    return "Answer with a few words, not a sentence: a name, a date, a number, or yes or no."


def conclude(question: Question) -> str:
    """The instruction for replies that reason first."""
    shape = "the letter of one option" if question.options else "a few words"
    return f'Think step by step, then end with "So the answer is: " and {shape}.'


def final_answer(reply: str) -> str:
    r"""What a reply answers.

    The content of its last \boxed{}; else what follows its last "answer is" or "answer:", to the
    end of the line; else its first line that is not blank.
    """
    if (inside := boxed(reply)) is not None:
        return inside
    *_, last = _CONCLUSION.split(reply)
    said = last if _CONCLUSION.search(reply) else reply
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[0].strip("*_`\"' ").removesuffix(".") if lines else ""


def first_sentence(reply: str) -> str:
    """The first sentence of the first line that is not blank; "" for a blank reply."""
    lines = [line.strip() for line in reply.splitlines() if line.strip()]
    return _SENTENCE.split(lines[0], maxsplit=1)[0] if lines else ""


def shown(passages: Iterable[Passage]) -> str:
    """Passages as a reader gets them, one a paragraph."""
    return "\n\n".join(f"Title: {p.title}\n{p.text}" if p.title else p.text for p in passages)
