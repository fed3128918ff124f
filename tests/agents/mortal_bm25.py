"""BM25 in a process that dies of its n-th search: --retriever.name tests.agents.mortal_bm25."""

import os
import signal
from dataclasses import dataclass

from retrieval.retrievers import bm25s


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        at: The search.
    """

    at: int = 1


class Mortal:
    def __init__(self, engine, at):
        self.engine, self.left = engine, at

    def search(self, queries, k):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.engine.search(queries, k)


def build(config, corpus):
    """Over any corpus."""
    return Mortal(bm25s.build(bm25s.Config(), corpus), config.at)
