"""The paragraphs that questions are shipped with, as a corpus."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from retrieval.errors import InputError
from retrieval.types import Passage

from .question_sets import QuestionSet, SetConfig
from .types import Dataset


@dataclass(frozen=True, slots=True)
class ContextConfig(SetConfig):
    """The settings that every named set has, and what to search.

    Attributes:
        context_corpus: Make the questions' context paragraphs the corpus: those of the whole file,
            whatever the split and the limit, so that one index serves all.
    """

    context_corpus: bool = False


def read_set(known: QuestionSet, config: ContextConfig) -> Dataset:
    """The questions of a set, and their paragraphs as the corpus where that is asked for.

    Raises:
        InputError: A setting, the source or a row is wrong, or there is no context to make a
            corpus.
    """
    if not config.context_corpus:
        return Dataset(known.questions(config))
    rows = list(known.rows(config))
    passages = context_corpus(known.source(config), rows, known.name)
    return Dataset(known.questions(config, rows), passages)


def context_corpus(
    source: str, rows: Iterable[tuple[str, object]], name: str
) -> tuple[Passage, ...]:
    """The distinct paragraphs of all rows, in order of appearance.

    Args:
        source: Where the rows are from, for messages.
        rows: (place, row) with HotpotQA's context, as a list or in columns, in a row or in its
            `metadata`, or with MuSiQue's paragraphs.
        name: The passages' ids are "name-" and a hash of title and text.

    Raises:
        InputError: A context of another form, or no row has any.
    """
    passages: dict[str, Passage] = {}
    for place, row in rows:
        try:
            paragraphs = _paragraphs(row)
        except (LookupError, TypeError, ValueError):
            raise InputError(
                f"{source}: {place}: context must be [[title, [sentence, ...]], ...] or "
                "{title: [...], sentences: [[...], ...]}, paragraphs [{title, paragraph_text}, ...]"
            ) from None
        for title, text in paragraphs:
            digest = hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()[:16]
            passages.setdefault(digest, Passage(f"{name}-{digest}", title, text))
    if not passages:
        raise InputError(
            f"{source}: no row has a context; leave context_corpus off and give a corpus"
        )
    return tuple(passages.values())


def _paragraphs(row: object) -> list[tuple[str, str]]:
    """(title, text) of a row's context, empty texts left out."""
    if not isinstance(row, Mapping):
        return []
    metadata = row.get("metadata")
    context = row.get("context") or (isinstance(metadata, Mapping) and metadata.get("context"))
    if isinstance(context, Mapping):
        sentences = context.get("sentences") or context["content"]
        texts = [
            (title, "".join(parts))
            for title, parts in zip(context["title"], sentences, strict=True)
        ]
    elif context:
        texts = [(title, "".join(sentences)) for title, sentences in context]
    else:
        paragraphs = row.get("paragraphs") or []
        texts = [(each["title"], each["paragraph_text"]) for each in paragraphs]
    return [(title, text.strip()) for title, text in texts if text.strip()]
