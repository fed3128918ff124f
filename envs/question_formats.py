"""Row formats, each a small function row -> Question, or None where the row is not its own.

The functions know nothing of files: `question_files` adds file and line to their errors, and gives
an id to a question that they leave without. Here are the formats that many sets are shipped in;
those of one publisher are in `wikipedia_formats` and `medical_formats`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from retrieval.errors import InputError

from .question_values import build_question, texts, titles
from .types import Question

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Skipped:
    """What a format makes of a row that is left out on purpose, and counted.

    Attributes:
        reason: For the count, such as "unanswerable".
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Format:
    """A row format.

    Attributes:
        shape: For messages: whose it is and its keys.
        read: Row -> Question, Skipped, or None when the row is of another format. Raises InputError
            when it is of this format but wrong.
        columns: What a Parquet file of this format is read for.
    """

    shape: str
    read: Callable[[Row], Question | Skipped | None]
    columns: tuple[str, ...]


def columns_of(formats: Iterable[Format]) -> tuple[str, ...]:
    """The columns of several formats, each once."""
    return tuple(dict.fromkeys(column for known in formats for column in known.columns))


def recognise(row: object, formats: tuple[Format, ...]) -> Question | Skipped:
    """The question of a row, by the first format that claims it.

    Raises:
        InputError: No format claims it, or what it says is not a question with an answer.
    """
    if not isinstance(row, Mapping):
        raise InputError(f"a {type(row).__name__} where an object belongs")
    for known in formats:
        found = known.read(row)
        if found is not None:
            return found if isinstance(found, Skipped) else _checked(found)
    keys = ", ".join(str(key) for key in list(row)[:12]) or "none"
    shapes = "; ".join(known.shape for known in formats)
    raise InputError(f"unknown format with the keys {keys}; known are {shapes}")


def has(row: Row, *keys: str) -> bool:
    """Whether the row has all these keys."""
    return all(key in row for key in keys)


def _plain(row: Row) -> Question | None:
    if not has(row, "question", "answers"):
        return None
    question = build_question(
        row.get("id"),
        row["question"],
        row["answers"],
        options=row.get("options"),
        supporting_titles=tuple(texts(row.get("supporting_titles") or (), "supporting_titles")),
        dataset=str(row.get("dataset") or ""),
    )
    return replace(question, source_ids=_source_ids(row))


def _source_ids(row: Row) -> tuple[str, ...]:
    """`source_ids`, or `gold_ids` of a nested `meta`."""
    meta = row.get("meta")
    nested = meta.get("gold_ids") if isinstance(meta, Mapping) else None
    return texts(row.get("source_ids") or nested or (), "source_ids")


def _flashrag(row: Row) -> Question | None:
    if not has(row, "question", "golden_answers"):
        return None
    source = str(row.get("data_source") or "")
    metadata = row.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    # PopQA's metadata names the page of the question's subject.
    page = texts(known.get("s_wiki_title"), "s_wiki_title")
    return build_question(
        _sourced(source, row.get("id")),
        row["question"],
        row["golden_answers"],
        supporting_titles=titles(known.get("supporting_facts")) or page,
        dataset=source,
    )


def _search_r1(row: Row) -> Question | None:
    if not has(row, "prompt", "reward_model"):
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


def _mirage(row: Row) -> Question | None:
    if not has(row, "question", "options", "answer"):
        return None
    question = build_question(row.get("id"), row["question"], row["answer"], options=row["options"])
    pmids = row.get("PMID")
    sources = tuple(str(pmid) for pmid in pmids) if isinstance(pmids, list | tuple) else ()
    return replace(question, source_ids=sources)


PLAIN = Format(
    "this project's {id, question, answers, options, supporting_titles}",
    _plain,
    ("id", "question", "answers", "options", "supporting_titles", "source_ids", "meta", "dataset"),
)
FLASHRAG = Format(
    "FlashRAG's {id, question, golden_answers, metadata}",
    _flashrag,
    ("id", "question", "golden_answers", "metadata", "data_source"),
)
SEARCH_R1 = Format(
    "Search-R1's {data_source, prompt, reward_model}",
    _search_r1,
    ("id", "data_source", "prompt", "reward_model"),
)
MIRAGE = Format(
    "MIRAGE's {question, options, answer}", _mirage, ("id", "question", "options", "answer", "PMID")
)


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
    try:
        "".join([found.id, found.text, *found.answers, *(found.options or {}).values()]).encode()
    except UnicodeEncodeError as error:  # JSON can spell a lone surrogate, which no tokenizer takes
        raise InputError(f"not valid Unicode ({error.reason})") from None
    return found
