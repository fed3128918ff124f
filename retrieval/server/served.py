"""An index that a server answers from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import plugins
from ..corpus import read_corpus
from ..errors import InputError
from ..index import PACKAGE, open_index
from ..types import Retriever


@dataclass(frozen=True, slots=True)
class Served:
    """One index.

    Attributes:
        name: In URLs; differs from that of the others.
        engine: The retriever's name.
        fingerprint: Of the corpus.
        passages: How many.
        versions: Of the libraries that made the index; empty for one made in memory.
        retriever: Answers.
    """

    name: str
    engine: str
    fingerprint: str
    passages: int
    versions: dict[str, str] = field(compare=False)
    retriever: Retriever = field(repr=False, compare=False)

    def info(self) -> dict[str, Any]:
        """What is told about it."""
        return {
            "index": self.name,
            "engine": self.engine,
            "fingerprint": self.fingerprint,
            "passages": self.passages,
            "versions": self.versions,
        }


def open_served(folders: Sequence[str], retriever: str | None, corpus: str | None) -> list[Served]:
    """Open index folders, and index one corpus in memory; in this order.

    Args:
        folders: Made by `python -m retrieval.build_index`.
        retriever: An engine to run with its default settings, or None.
        corpus: The corpus file it indexes; None without `retriever`.

    Raises:
        InputError: Nothing to serve, one of the two without the other, or a wrong index or corpus.
    """
    if (retriever is None) != (corpus is None):
        raise InputError("--retriever and --corpus go together: give both, or --index FOLDER")
    served: list[Served] = []
    for folder in folders:
        opened = open_index(Path(folder))
        manifest = opened.manifest
        served.append(
            Served(
                _free_name(Path(folder).resolve().name, served),
                manifest["retriever"],
                opened.corpus.fingerprint,
                len(opened.corpus.passages),
                manifest["versions"],
                opened.retriever,
            )
        )
    if retriever is not None and corpus is not None:
        module = plugins.load(PACKAGE, retriever)
        passages = read_corpus(corpus)
        served.append(
            Served(
                _free_name(retriever, served),
                retriever,
                passages.fingerprint,
                len(passages.passages),
                {},
                module.build(module.Config(), passages),
            )
        )
    if not served:
        raise InputError("nothing to serve: give --index FOLDER, or --retriever NAME --corpus FILE")
    return served


def _free_name(name: str, served: Sequence[Served]) -> str:
    """The name, or name-2, name-3 where it is taken."""
    taken = {one.name for one in served}
    candidates = [name, *(f"{name}-{number}" for number in range(2, len(served) + 3))]
    return next(candidate for candidate in candidates if candidate not in taken)
