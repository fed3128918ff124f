"""A Lucene index that Anserini or pyserini made, such as the published ones of wiki-18 and MedRAG.

    python eval.py ... --retriever.name lucene_prebuilt --retriever.path lucene-index-wiki-18

Searches as `lucene` does. Passages come from the index itself: the stored field `raw` where it is
JSON of one of the corpus schemas (`retrieval.corpus`), else the stored field `contents`, read as
Search-R1's. An index made with neither (--storeRaw, --storeContents) is refused.

The corpus fingerprint of such an index is not known without reading it whole. It is named by
"lucene:" and a hash of its files' names and sizes and of its segments file, which Lucene writes
anew, with a new random id, whenever an index is made or changed. Where a corpus is given, every
passage of it is looked up and must be the same, and the fingerprint is the corpus's.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from ..anserini import Found, Searcher
from ..corpus import Corpus, passage_of
from ..errors import InputError, RetrievalError
from ..ranking import check_k
from ..types import Hit, Passage
from . import lucene

NEEDS_CORPUS = False
_FIELDS = ("raw", "contents")


@dataclass(frozen=True, slots=True)
class Config(lucene.Config):
    """Settings; k1, b, analyzer and RM3 as for `lucene`. The analyzer must be the index's own.

    Attributes:
        path: The folder of the index.
    """

    path: str = ""


def build(config: Config, corpus: Corpus | None) -> "Prebuilt":
    """Open it.

    Raises:
        InputError: No Java, no Lucene index, one that stores no passages, or another corpus.
    """
    if not config.path:
        raise InputError("retriever.path is missing: give the folder of a Lucene index")
    return Prebuilt(config, corpus)


class Prebuilt:
    """A Retriever; threads may share it, processes only if they are spawned, not forked.

    Attributes:
        fingerprint: Of what is searched: of the corpus if that was given, else of the files.
    """

    def __init__(self, config: Config, corpus: Corpus | None) -> None:
        self._config, self._corpus = config, corpus
        folder = Path(config.path)
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder; give the folder of a Lucene index")
        self._searcher = Searcher(folder, config.analyzer, config.k1, config.b, config.feedback)
        if self._searcher.documents == 0:
            raise InputError(f"{folder}: the index is empty; give another")
        if not any(self._searcher.first(_FIELDS).values()):
            raise InputError(
                f"{folder}: the index stores no passages; make one with --storeRaw, or give the "
                "corpus to the retriever 'lucene'"
            )
        self.fingerprint = _fingerprint(folder)
        if corpus is not None:
            self._compare(folder, corpus)
            self.fingerprint = corpus.fingerprint

    def __reduce__(self) -> tuple[type["Prebuilt"], tuple[Config, Corpus | None]]:
        return Prebuilt, (self._config, self._corpus)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`.

        Raises:
            RetrievalError: Lucene failed, or what a hit stores is no passage.
            InputError: k < 1.
        """
        check_k(k)
        return self._searcher.search(queries, k, _hits, _FIELDS)

    def _compare(self, folder: Path, corpus: Corpus) -> None:
        """Refuse a corpus that is not the index's."""
        other = f"{folder}: was built of another corpus"
        count = len(corpus.passages)
        if self._searcher.documents != count:
            raise InputError(
                f"{other}: it has {self._searcher.documents:,} passages, not {count:,}; "
                "give the right one, or none"
            )
        compared = tqdm(corpus.passages, desc="compare", unit=" passages", delay=1, disable=None)
        for passage in compared:
            stored = self._searcher.stored(passage.id, _FIELDS)
            if stored is None or _passage(passage.id, stored) != passage:
                raise InputError(
                    f"{other}: passage {passage.id!r} is {'another' if stored else 'missing'} "
                    "there; give the right corpus, or none"
                )


def _hits(answer: list[Found]) -> list[Hit]:
    return [
        Hit(_passage(str(found.id), found.document), found.score, rank)
        for rank, found in enumerate(answer, 1)
    ]


def _passage(name: str, stored: Mapping[str, str | None]) -> Passage:
    """The passage that a document stores."""
    try:
        row = json.loads(stored["raw"] or "null")
    except ValueError:
        row = None
    if not isinstance(row, dict):
        row = {"contents": stored["contents"]}
    try:
        return passage_of({**row, "id": name})
    except InputError as error:
        raise RetrievalError(f"passage {name!r} of the index: {error}") from error


def _fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.name != "write.lock" and file.is_file():
            digest.update(f"{file.name}\n{file.stat().st_size}\n".encode())
            if file.name.startswith("segments_"):
                digest.update(file.read_bytes())
    return f"lucene:{digest.hexdigest()}"
