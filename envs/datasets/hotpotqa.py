"""HotpotQA: two-hop questions over Wikipedia introductions.

Yang et al., EMNLP 2018 (arXiv:1809.09600). Reads the official JSON list, the Hugging Face variant
with columns, FlashRAG's and Search-R1's JSON Lines and Parquet, and this project's format. The
2WikiMultihopQA files have the official shape too.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from retrieval.errors import InputError
from retrieval.types import Passage

from ..question_files import Selection, file_rows, questions_of, select
from ..question_formats import FLASHRAG, HOTPOTQA, PLAIN, SEARCH_R1
from ..types import Dataset

FORMATS = (PLAIN, FLASHRAG, SEARCH_R1, HOTPOTQA)


@dataclass(frozen=True, slots=True)
class Config:
    """Settings.

    Attributes:
        path: The file.
        split: "all", "train" or "test".
        test_share: Share of the questions that is "test", 0 to 1, by the hash of the id.
        limit: At most so many questions, from the start; null for all.
        context_corpus: Make the questions' context paragraphs the corpus: those of the whole file,
            whatever the split and the limit, so that one index serves all.
    """

    path: str
    split: str = "all"
    test_share: float = 0.2
    limit: int | None = None
    context_corpus: bool = False


def build(config: Config) -> Dataset:
    """Read the file.

    Raises:
        InputError: A setting, the file or a row is wrong, or there is no context to make a corpus.
    """
    selection = Selection(config.split, config.test_share, config.limit)
    rows: Iterable[tuple[str, object]] = file_rows(config.path)
    passages = None
    if config.context_corpus:
        rows = list(rows)
        passages = _corpus(config.path, rows)
    keyed = questions_of(config.path, rows, "hotpotqa", FORMATS)
    return Dataset(select(config.path, keyed, selection), passages)


def _corpus(path: str, rows: Iterable[tuple[str, object]]) -> tuple[Passage, ...]:
    """The distinct paragraphs of all contexts, in order of appearance."""
    passages: dict[str, Passage] = {}
    for place, row in rows:
        try:
            paragraphs = _paragraphs(row)
        except (LookupError, TypeError, ValueError):
            raise InputError(
                f"{path}: {place}: context must be [[title, [sentence, ...]], ...] or "
                "{title: [...], sentences: [[...], ...]}"
            ) from None
        for title, text in paragraphs:
            digest = hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()[:16]
            passages.setdefault(digest, Passage(f"hotpotqa-{digest}", title, text))
    if not passages:
        raise InputError(
            f"{path}: no row has a context; leave context_corpus off and give a corpus"
        )
    return tuple(passages.values())


def _paragraphs(row: object) -> list[tuple[str, str]]:
    """(title, text) of a context: the official list, columns, or within FlashRAG's metadata."""
    if not isinstance(row, Mapping):
        return []
    metadata = row.get("metadata")
    context = row.get("context") or (isinstance(metadata, Mapping) and metadata.get("context"))
    if not context:
        return []
    if isinstance(context, Mapping):
        sentences = context.get("sentences") or context["content"]
        pairs = list(zip(context["title"], sentences, strict=True))
    else:
        pairs = [(title, sentences) for title, sentences in context]
    texts = [(title, "".join(sentences).strip()) for title, sentences in pairs]
    return [(title, text) for title, text in texts if text]
