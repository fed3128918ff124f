"""The options of a question in another order, to see whether an agent prefers a letter to a text.

Pezeshkpour and Hruschka, 2023 (arXiv:2308.11483): the order of options alone changes answers.
"""

import hashlib
import random
import re
from dataclasses import replace
from math import factorial

from retrieval.errors import InputError

from .types import Question

_MARK = "#order"

# "All of the above", "None of these", "Both": the options before it are meant. ALL is a leukaemia.
_AMOUNTS = r"(?:all|any|both|either|neither|none|some|most|more than one)"
_BY_PLACE = re.compile(
    rf"(?!ALL$)(?i:{_AMOUNTS}(?: of)?(?: the| these| those| them| the following)?)"
    rf"|(?i:.*\b{_AMOUNTS}(?: of)?(?: the)? above\b.*)"
)

# "A and C", "Both (A) & 'B'", "a,c,d", "Both AB", "option A", "A only", "Both 1 and 2". Letters end
# at H: "I only" and "I and II" number statements of the question. A text that is a letter alone
# would under another letter name both.
_LETTER = r"[('\"]?[A-H][)'\"]?"
_ONE = r"[('\"]?[A-H1-8][)'\"]?"
_AND = r"(?:\s*[,&/+]\s*|(?:\s*,)?\s+(?:and|or|nor)\s+)"
_LEAD = r"(?:both|either|neither|only|all|none|options?|choices?|answers?)(?: of)?\s+"
_BY_LETTER = re.compile(
    rf"(?:{_LEAD})?{_ONE}(?:{_AND}{_ONE})+(?: only| both| are (?:true|correct|false))?"
    r"|(?:both|either|neither|all)\s+[A-H]{2,}"
    rf"|{_LETTER}(?: only)?|(?:only|options?|choices?)\s+{_LETTER}",
    re.IGNORECASE,
)


def shufflable(question: Question) -> bool:
    """Whether the order of the options can change without changing what they say.

    It cannot where there are no options, where a text names others by letter or number ("A and C"),
    or where fewer than two options are free to move. An option that means those before it ("All of
    the above") keeps its place, and so does every option behind it.
    """
    texts = [_bare(text) for text in (question.options or {}).values()]
    return not any(map(_names_letters, texts)) and _num_free(question) > 1


def num_orders(question: Question) -> int:
    """How many orders of the options there are, the original one included."""
    return factorial(_num_free(question)) if shufflable(question) else 1


def shuffled(question: Question, order: int) -> Question:
    """The question with its options' texts permuted over the same letters.

    Args:
        question: With options; one that is not `shufflable` comes back unchanged.
        order: 0 is the question itself. The orders 1, 2, ... are different permutations, drawn
            with a seed of the question's id, until all `num_orders` have been; then they repeat.

    Returns:
        The question with the right letter first among its answers, its text second and the others
        behind, and with an id of its own, of which `base_id` is the old one.

    Raises:
        InputError: A negative order.
    """
    if order < 0:
        raise InputError(f"order {order} must be 0 or more")
    if order == 0 or not shufflable(question):
        return question
    options = question.options or {}
    letters, texts = list(options), list(options.values())
    places = _permutation(question, order % num_orders(question))
    right = places.index(letters.index(question.answers[0]))
    return replace(
        question,
        id=f"{question.id}{_MARK}{order}",
        options={letter: texts[place] for letter, place in zip(letters, places, strict=True)},
        answers=(letters[right], *question.answers[1:]),
    )


def base_id(identifier: str) -> str:
    """The id of the question that a shuffled one was made from; another id is its own."""
    base, mark, order = identifier.rpartition(_MARK)
    return base if mark and order.isdecimal() else identifier


def _permutation(question: Question, rank: int) -> list[int]:
    """Letter by letter the place that its text comes from; `rank` 0 is the original order."""
    free = _num_free(question)
    draw = random.Random(hashlib.sha256(question.id.encode()).digest())
    places = list(range(free))
    drawn = {tuple(places)}
    while len(drawn) <= rank:
        places = draw.sample(range(free), free)
        drawn.add(tuple(places))
    return places + list(range(free, len(question.options or {})))


def _num_free(question: Question) -> int:
    """How many options stand before the first that keeps its place."""
    texts = [_bare(text) for text in (question.options or {}).values()]
    return next((n for n, text in enumerate(texts) if _BY_PLACE.fullmatch(text)), len(texts))


def _bare(text: str) -> str:
    return " ".join(text.split()).rstrip(". ")


def _names_letters(text: str) -> bool:
    return _BY_LETTER.fullmatch(text) is not None
