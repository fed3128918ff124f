"""How the contract tests set up the engines that need more than `Config()` over a corpus.

A setup is a context manager: (corpus, scratch folder) -> the engine's Config. Engines that are not
listed here are built with `Config()`.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from retrieval.corpus import Corpus
from retrieval.index import build_index
from retrieval.retrievers import bm25s, cassette, index, milvus
from retrieval.store import write_store

Setup = Callable[[Corpus, Path], AbstractContextManager[Any]]


@contextmanager
def of_index(corpus: Corpus, scratch: Path) -> Iterator[index.Config]:
    write_store(corpus.passages, scratch)
    build_index(scratch / "passages.jsonl", scratch / "index", "bm25s", bm25s.Config())
    yield index.Config(str(scratch / "index"))


@contextmanager
def of_cassette(corpus: Corpus, scratch: Path) -> Iterator[cassette.Config]:
    yield cassette.Config(str(scratch / "answers.jsonl"), "auto", "bm25s")


@contextmanager
def of_milvus(corpus: Corpus, scratch: Path) -> Iterator[milvus.Config]:
    yield milvus.Config(uri=str(scratch / "passages.db"))


SETUPS: dict[str, Setup] = {"index": of_index, "cassette": of_cassette, "milvus": of_milvus}
