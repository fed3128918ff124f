"""From raw values of a row to a Question: answers, supporting titles, options in any notation."""

from collections.abc import Mapping
from typing import Any

from retrieval.errors import InputError

from .types import Question


def build_question(
    identifier: object,
    text: object,
    answers: object,
    *,
    options: object = None,
    supporting_titles: tuple[str, ...] = (),
    dataset: str = "",
) -> Question:
    """A question of raw values; with options, `answers` is or starts with the right letter or text.

    Raises:
        InputError: A value of the wrong type, or an answer that is none of the options.
    """
    if not isinstance(text, str):
        raise InputError(f"question is a {type(text).__name__}, not text")
    listed = texts(answers, "answers")
    offered = options_of(options)
    if offered:
        listed = choice(offered, listed)
    return Question(
        id="" if identifier is None else str(identifier),
        text=text.strip(),
        answers=listed,
        options=offered or None,
        supporting_titles=supporting_titles,
        dataset=dataset,
    )


def texts(value: object, name: str) -> tuple[str, ...]:
    """A text or a list of texts, as a tuple without repeats; null is no text."""
    if value is None:
        return ()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list | tuple) or not all(isinstance(each, str) for each in values):
        raise InputError(f"{name} must be a text or a list of texts, not {str(value)[:60]!r}")
    return tuple(dict.fromkeys(values))


def titles(facts: Any) -> tuple[str, ...]:
    """Supporting titles, unique, in order: of [[title, sentence], ...] or {title: [...], ...}."""
    if not facts:
        return ()
    try:
        found = facts["title"] if isinstance(facts, Mapping) else [fact[0] for fact in facts]
    except (LookupError, TypeError):
        raise InputError(
            "supporting_facts must be [[title, sentence number], ...] or {title: [...]}"
        ) from None
    return texts(found, "titles of supporting_facts")


def options_of(value: object) -> dict[str, str]:
    """Letter -> text: of a mapping, a list of {key, value}, or a list of texts (A, B, ...)."""
    if not value:
        return {}
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list) and all(isinstance(each, Mapping) for each in value):
        pairs = [(each.get("key"), each.get("value")) for each in value]
    elif isinstance(value, list):
        pairs = [(chr(ord("A") + place), each) for place, each in enumerate(value)]
    else:
        raise InputError(f"options must be a mapping or a list, not {str(value)[:60]!r}")
    # Parquet fills the letters that other rows have with nulls.
    pairs = [(letter, text) for letter, text in pairs if text is not None]
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        raise InputError("options must map letters to texts")
    return dict(pairs)


def choice(options: Mapping[str, str], answers: tuple[str, ...]) -> tuple[str, ...]:
    """The answers as `Question` wants them: the right letter, its text, and what else there is."""
    if not answers:
        return ()
    first = answers[0].strip()
    letters = [letter for letter, text in options.items() if text.strip() == first]
    letter = first if first in options else letters[0] if len(letters) == 1 else None
    if letter is None:
        raise InputError(f"answer {answers[0]!r} is none of the options {', '.join(options)}")
    wrong = {part for pair in options.items() for part in pair} - {letter, options[letter]}
    contradiction = next((answer for answer in answers[1:] if answer in wrong), None)
    if contradiction is not None:
        raise InputError(f"answers {letter!r} and {contradiction!r} are two different options")
    # The text may be the letter itself, as where the options name parts of a figure.
    right = (letter, options[letter])
    return (*right, *(answer for answer in dict.fromkeys(answers[1:]) if answer not in right))
