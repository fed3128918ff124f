"""Publishers' row formats, each a small function row -> Question, or None where it is not its own.

The functions know nothing of files: `question_files` adds file and line to their errors, and gives
an id to a question that they leave without.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from retrieval.errors import InputError

from .question_values import build_question, texts, titles
from .types import Question

Row = Mapping[str, Any]

# What a Parquet file is read for; together the columns of all formats.
COLUMNS = (
    *("id", "_id", "question", "answers", "golden_answers", "answer", "answer_idx", "options"),
    *("supporting_titles", "supporting_facts", "context", "metadata", "dataset"),
    *("source_ids", "meta"),
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
    try:
        "".join([found.id, found.text, *found.answers, *(found.options or {}).values()]).encode()
    except UnicodeEncodeError as error:  # JSON can spell a lone surrogate, which no tokenizer takes
        raise InputError(f"not valid Unicode ({error.reason})") from None
    return found
