"""Row formats of the publishers of medical questions."""

import re
from dataclasses import replace
from typing import Any

from retrieval.errors import InputError

from .question_formats import Format, Row, Skipped, has
from .question_values import build_question
from .types import Question

_LETTERS = "ABCD"
_DECISIONS = {"A": "yes", "B": "no", "C": "maybe"}
_YES_NO = {"A": "yes", "B": "no"}

# "A. ", "B) ", "(C) " or "D: ", at the start of a line or else anywhere.
_MARK = r"\(?([A-Z])[.):]\s*"
_AT_LINE_STARTS = re.compile(rf"(?m)^[ \t]*{_MARK}")
_ANYWHERE = re.compile(rf"(?:(?<=\s)|^){_MARK}")


def _medqa(row: Row) -> Question | None:
    if not has(row, "question", "options", "answer_idx"):
        return None
    return build_question(row.get("id"), row["question"], row["answer_idx"], options=row["options"])


def medmcqa(first: int) -> Format:
    """MedMCQA's format where `cop`, the number of the right option, counts from `first`."""

    def read(row: Row) -> Question | None:
        if not has(row, "question", "cop", "opa", "opb"):
            return None
        options = {letter: row.get(f"op{letter.lower()}") for letter in _LETTERS}
        letter = _numbered(row["cop"], first, "cop")
        return build_question(row.get("id"), row["question"], letter, options=options)

    columns = ("id", "question", "opa", "opb", "opc", "opd", "cop")
    return Format("MedMCQA's {id, question, opa, opb, opc, opd, cop}", read, columns)


def _numbered(number: Any, first: int, name: str) -> str:
    """The letter of the option that a number from `first` on names."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise InputError(f"{name} must be a whole number, not {str(number)[:60]!r}")
    if not first <= number < first + len(_LETTERS):
        raise InputError(
            f"{name} is {number}, not {first} to {first + len(_LETTERS) - 1}: no answer is "
            "published here (of MedMCQA's splits, test has none)"
        )
    return _LETTERS[number - first]


def _pubmedqa(row: Row) -> Question | None:
    """The publisher's keys, or those of the copy on the hub."""
    for identifier, question in (("id", "QUESTION"), ("pubid", "question")):
        if has(row, identifier, question, "final_decision"):
            pmid = str(row[identifier])
            found = build_question(pmid, row[question], row["final_decision"], options=_DECISIONS)
            return replace(found, source_ids=(pmid,))
    return None


def _mmlu(row: Row) -> Question | None:
    if not has(row, "question", *_LETTERS, "answer"):
        return None
    options = {letter: row[letter] for letter in _LETTERS}
    if row["answer"] not in options:
        raise InputError(f"answer {row['answer']!r} is none of the letters {', '.join(options)}")
    return build_question(row.get("id"), row["question"], row["answer"], options=options)


def _mmlu_hub(row: Row) -> Question | None:
    if not has(row, "question", "choices", "answer"):
        return None
    letter = _numbered(row["answer"], 0, "answer")
    return build_question(row.get("id"), row["question"], letter, options=row["choices"])


def _bioasq(row: Row) -> Question | Skipped | None:
    if not has(row, "body", "type"):
        return None
    kind = row["type"]
    if kind not in ("yesno", "factoid"):
        return Skipped(f"of type {kind}")
    answer = row.get("exact_answer")
    if kind == "yesno":
        decision = answer.strip().lower() if isinstance(answer, str) else answer
        found = build_question(row.get("id"), row["body"], decision, options=_YES_NO)
    else:
        found = build_question(row.get("id"), row["body"], _flat(answer))
    documents = row.get("documents") or []
    if not isinstance(documents, list) or not all(isinstance(each, str) for each in documents):
        raise InputError("documents must be a list of addresses")
    pmids = dict.fromkeys(each.rstrip("/").rpartition("/")[2] for each in documents)
    return replace(found, source_ids=tuple(pmids))


def _flat(answer: object) -> object:
    """A factoid's answers: lists of synonyms, or one such list."""
    if not isinstance(answer, list):
        return answer
    groups = [each if isinstance(each, list) else [each] for each in answer]
    return [text for group in groups for text in group]


def _alphamed(row: Row) -> Question | None:
    if not has(row, "question", "answer") or not isinstance(row["question"], str):
        return None
    stem, options = inline_options(row["question"])
    return build_question(row.get("id"), stem, row["answer"], options=options)


def inline_options(text: str) -> tuple[str, dict[str, str]]:
    """A question and the options that stand behind it in one text: (question, letter -> text).

    The options are the last run "A. ... B. ... C. ...", marked "A.", "A)", "(A)" or "A:", each at
    the start of a line; where there is none at line starts, anywhere.

    Raises:
        InputError: There are not two options.
    """
    for pattern in (_AT_LINE_STARTS, _ANYWHERE):
        marks = list(pattern.finditer(text))
        starts = [place for place, mark in enumerate(marks) if mark[1] == "A"]
        for start in reversed(starts):
            run = _run(marks[start:])
            if len(run) > 1:
                ends = [mark.start() for mark in run[1:]] + [len(text)]
                options = {
                    mark[1]: text[mark.end() : end].strip()
                    for mark, end in zip(run, ends, strict=True)
                }
                return text[: run[0].start()].strip(), options
    raise InputError('the question holds no options "A. ... B. ..." behind it')


def _run(marks: list[re.Match[str]]) -> list[re.Match[str]]:
    """The marks that are A, B, C, ... in turn; others belong to an option's text."""
    run: list[re.Match[str]] = []
    for mark in marks:
        if mark[1] == chr(ord("A") + len(run)):
            run.append(mark)
    return run


MEDQA = Format(
    "MedQA's {question, options, answer, answer_idx}",
    _medqa,
    ("id", "question", "options", "answer", "answer_idx"),
)
PUBMEDQA = Format(
    "PubMedQA's {pmid: {QUESTION, final_decision}} or {pubid, question, final_decision}",
    _pubmedqa,
    ("pubid", "question", "final_decision"),
)
MMLU = Format("MMLU's question, A, B, C, D, answer", _mmlu, ("question", *_LETTERS, "answer"))
MMLU_HUB = Format(
    "the hub's {question, choices, answer}", _mmlu_hub, ("question", "choices", "answer")
)
BIOASQ = Format(
    "BioASQ's {id, body, type, exact_answer, documents}",
    _bioasq,
    ("id", "body", "type", "exact_answer", "documents"),
)
ALPHAMED = Format(
    "AlphaMed's {question with its options, answer}", _alphamed, ("id", "question", "answer")
)
