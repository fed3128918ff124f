"""Row formats of the publishers whose questions are about Wikipedia."""

import json
from collections.abc import Mapping

from retrieval.errors import InputError

from .question_formats import Format, Row, Skipped, has
from .question_values import build_question, texts, titles
from .types import Question

# What TriviaQA's copy on the hub writes where the test split has no answer.
_UNKNOWN = "<unk>"


def _nq_open(row: Row) -> Question | None:
    if not has(row, "question", "answer"):
        return None
    return build_question(row.get("id"), row["question"], row["answer"])


def _hotpotqa(row: Row) -> Question | None:
    if not has(row, "question", "answer", "supporting_facts"):
        return None
    identifier = row.get("_id") or row.get("id")
    facts = titles(row["supporting_facts"])
    return build_question(identifier, row["question"], row["answer"], supporting_titles=facts)


def _triviaqa(row: Row) -> Question | None:
    if not has(row, "Question", "QuestionId"):
        return None
    answer = row.get("Answer")
    answers = _aliased(answer, "Value", "Aliases") if answer is not None else ()
    return build_question(row["QuestionId"], row["Question"], answers)


def _triviaqa_hub(row: Row) -> Question | None:
    if not has(row, "question", "question_id", "answer"):
        return None
    answers = _aliased(row["answer"], "value", "aliases")
    if answers == (_UNKNOWN,):
        answers = ()
    return build_question(row["question_id"], row["question"], answers)


def _aliased(answer: object, value: str, aliases: str) -> tuple[str, ...]:
    """An answer and its aliases, the answer first."""
    if not isinstance(answer, Mapping):
        raise InputError(f"the answer must be {{{value}, {aliases}}}, not {str(answer)[:60]!r}")
    return _joined(answer.get(value), answer.get(aliases), aliases)


def _joined(answer: object, aliases: object, name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*texts(answer, "answer"), *texts(aliases, name))))


def _popqa(row: Row) -> Question | None:
    if not has(row, "question", "possible_answers"):
        return None
    answers = row["possible_answers"]
    if isinstance(answers, str):
        try:
            answers = json.loads(answers)
        except ValueError:
            raise InputError(f"possible_answers is no JSON list: {answers[:60]!r}") from None
    return build_question(
        row.get("id"),
        row["question"],
        texts(answers, "possible_answers"),
        supporting_titles=texts(row.get("s_wiki_title") or (), "s_wiki_title"),
    )


def _musique(row: Row) -> Question | Skipped | None:
    if not has(row, "question", "answer", "paragraphs"):
        return None
    if row.get("answerable") is False:
        return Skipped("unanswerable")
    try:
        support = [each["title"] for each in row["paragraphs"] if each["is_supporting"]]
    except (LookupError, TypeError):
        raise InputError("paragraphs must be [{title, is_supporting, ...}, ...]") from None
    return build_question(
        row.get("id"),
        row["question"],
        _joined(row["answer"], row.get("answer_aliases"), "answer_aliases"),
        supporting_titles=texts(support, "titles of paragraphs"),
    )


def _bamboogle(row: Row) -> Question | None:
    if not has(row, "Question", "Answer"):
        return None
    return build_question(None, row["Question"], row["Answer"])


NQ_OPEN = Format("NQ-open's {question, answer}", _nq_open, ("id", "question", "answer"))
HOTPOTQA = Format(
    "HotpotQA's {_id, question, answer, supporting_facts, context}",
    _hotpotqa,
    ("_id", "id", "question", "answer", "supporting_facts", "context"),
)
TRIVIAQA = Format(
    "TriviaQA's {QuestionId, Question, Answer: {Value, Aliases}}",
    _triviaqa,
    ("QuestionId", "Question", "Answer"),
)
TRIVIAQA_HUB = Format(
    "the hub's {question_id, question, answer: {value, aliases}}",
    _triviaqa_hub,
    ("question_id", "question", "answer"),
)
POPQA = Format(
    "PopQA's {id, question, possible_answers, s_wiki_title}",
    _popqa,
    ("id", "question", "possible_answers", "s_wiki_title"),
)
MUSIQUE = Format(
    "MuSiQue's {id, question, answer, answer_aliases, answerable, paragraphs}",
    _musique,
    ("id", "question", "answer", "answer_aliases", "answerable", "paragraphs"),
)
BAMBOOGLE = Format("Bamboogle's {Question, Answer}", _bamboogle, ("Question", "Answer"))
