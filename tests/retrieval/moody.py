"""An engine for tests that does what the query says: die, fail, sleep, tell about its process.

It is a plug-in like any other, named by its dotted module name.
"""

import atexit
import importlib
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from retrieval.errors import InputError, RetrievalError
from retrieval.types import Hit, Passage


@dataclass(frozen=True, slots=True)
class Config:
    """Settings.

    Attributes:
        at_build: "input", "bug", "exit"; "faiss" imports it; "note:FILE" makes FILE at the end.
    """

    at_build: str = ""


def build(config, corpus):
    """Do what the config says."""
    match config.at_build.partition(":"):
        case "input", _, _:
            raise InputError("the setting is wrong")
        case "bug", _, _:
            raise KeyError("oops")
        case "exit", _, _:
            os._exit(9)
        case "faiss", _, _:
            importlib.import_module("faiss")
        case "note", _, file:
            atexit.register(Path(file).touch)
    return Moody()


class Moody:
    """A Retriever."""

    def search(self, queries, k):
        return [[Hit(Passage("p", "", self._do(query)), 1.0, 1)] for query in queries]

    def _do(self, query):
        match query.split():
            case ["pid"]:
                return str(os.getpid())
            case ["modules"]:
                heavy = ("faiss", "numpy.testing", "pytest", "torch")
                return str([name for name in heavy if name in sys.modules])
            case ["input"]:
                raise InputError("the query is wrong")
            case ["retrieval"]:
                raise RetrievalError("no answer within 5 s")
            case ["os"]:
                raise ConnectionResetError(104, "reset by peer")
            case ["bug"]:
                raise KeyError("oops")
            case ["exit", code]:
                os._exit(int(code))
            case ["slowly", _]:
                time.sleep(0.5)
            case ["sleep"]:
                time.sleep(600)
        return query
