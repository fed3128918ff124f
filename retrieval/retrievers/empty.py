"""Ablation: an engine that never finds anything.

What an agent scores with it, it knew, or guessed: the closed-book score in the same environment,
with the same turns and the same prompt. It needs no corpus; where one is named, results carry its
fingerprint, and "none" otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..corpus import Corpus
from ..ranking import check_k
from ..types import Hit

NEEDS_CORPUS = False


@dataclass(frozen=True, slots=True)
class Config:
    """No settings."""


def build(config: Config, corpus: Corpus | None) -> "Empty":
    """Nothing is indexed."""
    return Empty("none" if corpus is None else corpus.fingerprint)


class Empty:
    """A Retriever; threads may share it.

    Attributes:
        fingerprint: Of the corpus that is not searched.
    """

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`; no query has hits."""
        check_k(k)
        return [[] for _ in queries]
