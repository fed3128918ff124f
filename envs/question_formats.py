"""Publishers' row formats, each a small function row -> Question, or None where it is not its own.

The functions know nothing of files: `question_files` adds file and line to their errors, and gives
an id to a question that they leave without.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from retrieval.errors import InputError

from .types import Question

Row = Mapping[str, Any]

# What a Parquet file is read for; together the columns of all formats.
COLUMNS = (
    *("id", "_id", "question", "answers", "golden_answers", "answer", "answer_idx", "options"),
    *("supporting_titles", "supporting_facts", "context", "metadata", "dataset"),
    *("data_source", "prompt", "reward_model"),
)


@dataclass(frozen=True, slots=True)
class Format:
    """A row format.

    Attributes:
        shape: For messages: whose it is and its keys.
        read: Row -> Question, or None when the row is of another format. Raises InputError when it
            is of this format but wrong.
    """

    shape: str
    read: Callable[[Row], Question | None]


def recognise(row: object, formats: tuple[Format, ...]) -> Question:
    """The question of a row, by the first format that claims it.

    Raises:
        InputError: No format claims it, or what it says is not a question with an answer.
    """
    if not isinstance(row, Mapping):
        raise InputError(f"a {type(row).__name__} where an object belongs")
    for known in formats:
        question = known.read(row)
        if question is not None:
            return _checked(question)
    found = ", ".join(str(key) for key in list(row)[:12]) or "none"
    shapes = "; ".join(known.shape for known in formats)
    raise InputError(f"unknown format with the keys {found}; known are {shapes}")


def _plain(row: Row) -> Question | None:
    if not _has(row, "question", "answers"):
        return None
    return build_question(
        row.get("id"),
        row["question"],
        row["answers"],
        options=row.get("options"),
        supporting_titles=tuple(texts(row.get("supporting_titles") or (), "supporting_titles")),
        dataset=str(row.get("dataset") or ""),
    )


def _flashrag(row: Row) -> Question | None:
    if not _has(row, "question", "golden_answers"):
        return None
    source = str(row.get("data_source") or "")
    metadata = row.get("metadata")
    facts = metadata.get("supporting_facts") if isinstance(metadata, Mapping) else None
    return build_question(
        _sourced(source, row.get("id")),
        row["question"],
        row["golden_answers"],
        supporting_titles=titles(facts),
        dataset=source,
    )


def _search_r1(row: Row) -> Question | None:
    if not _has(row, "prompt", "reward_model"):
        return None
    try:
        prompt = row["prompt"][-1]["content"]
        target = row["reward_model"]["ground_truth"]["target"]
    except (LookupError, TypeError):
        raise InputError(
            "no question or target: want prompt[-1].content and reward_model.ground_truth.target"
        ) from None
    # The instructions end in "Question: ..."; a row without that mark is nothing but the question.
    text = str(prompt).rpartition("Question:")[2]
    source = str(row.get("data_source") or "")
    return build_question(_sourced(source, row.get("id")), text, target, dataset=source)


def _hotpotqa(row: Row) -> Question | None:
    if not _has(row, "question", "answer", "supporting_facts"):
        return None
    identifier = row.get("_id") or row.get("id")
    facts = titles(row["supporting_facts"])
    return build_question(identifier, row["question"], row["answer"], supporting_titles=facts)


def _medqa(row: Row) -> Question | None:
    if not _has(row, "question", "options", "answer_idx"):
        return None
    return build_question(row.get("id"), row["question"], row["answer_idx"], options=row["options"])


def _mirage(row: Row) -> Question | None:
    if not _has(row, "question", "options", "answer"):
        return None
    return build_question(row.get("id"), row["question"], row["answer"], options=row["options"])


def _nq_open(row: Row) -> Question | None:
    if not _has(row, "question", "answer"):
        return None
    return build_question(row.get("id"), row["question"], row["answer"])


PLAIN = Format("this project's {id, question, answers, options, supporting_titles}", _plain)
FLASHRAG = Format("FlashRAG's {id, question, golden_answers, metadata}", _flashrag)
SEARCH_R1 = Format("Search-R1's {data_source, prompt, reward_model}", _search_r1)
HOTPOTQA = Format("HotpotQA's {_id, question, answer, supporting_facts, context}", _hotpotqa)
MEDQA = Format("MedQA's {question, options, answer, answer_idx}", _medqa)
MIRAGE = Format("MIRAGE's {question, options, answer}", _mirage)
NQ_OPEN = Format("NQ-open's {question, answer}", _nq_open)


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


def titles(facts: object) -> tuple[str, ...]:
    """Supporting titles, unique, in order: of [[title, sentence], ...] or {title: [...], ...}."""
    if not facts:
        return ()
    try:
        found = facts["title"] if isinstance(facts, Mapping) else [fact[0] for fact in facts]  # type: ignore[attr-defined]
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
    else:
        pairs = [
            (chr(ord("A") + place), each) for place, each in enumerate(texts(value, "options"))
        ]
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
    return tuple(dict.fromkeys((letter, options[letter], *answers[1:])))


def _has(row: Row, *keys: str) -> bool:
    return all(key in row for key in keys)


def _sourced(source: str, identifier: object) -> str | None:
    """Search-R1 merges data sets whose ids repeat ("train_0"), so the source becomes part of it."""
    if identifier is None:
        return None
    return f"{source}-{identifier}" if source else str(identifier)


def _checked(found: Question) -> Question:
    if not found.text:
        raise InputError("the question is empty")
    if not found.answers or not all(answer.strip() for answer in found.answers):
        raise InputError("no answers, or an empty one: every question needs at least one")
    return found
