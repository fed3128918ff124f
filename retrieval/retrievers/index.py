"""An index folder, whatever engine it was built for.

    python -m retrieval.build_index --corpus C.jsonl.gz --retriever dense --out indexes/x
    python eval.py ... --retriever.name index --retriever.path indexes/x

The folder says which engine it is and holds the passages. A corpus that is given too must be the
one it was built of.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..corpus import Corpus
from ..errors import InputError
from ..index import open_index
from ..types import Hit

NEEDS_CORPUS = False


@dataclass(frozen=True, slots=True)
class Config:
    """Settings.

    Attributes:
        path: The folder; made by `python -m retrieval.build_index`.
    """

    path: str = ""


def build(config: Config, corpus: Corpus | None) -> "OpenIndex":
    """Open it.

    Raises:
        InputError: No such index, or one of another corpus.
    """
    if not config.path:
        raise InputError("retriever.path is missing: give an index folder")
    return OpenIndex(Path(config.path), corpus)


class OpenIndex:
    """A Retriever; threads may share it as far as they may share its engine.

    Attributes:
        fingerprint: Of the corpus that is searched.
    """

    def __init__(self, folder: Path, expected: Corpus | None) -> None:
        opened = open_index(folder, expected)
        self._retriever = opened.retriever
        self.fingerprint = opened.corpus.fingerprint

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`."""
        return self._retriever.search(queries, k)
