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
from retrieval.retrievers import bm25s, cassette, http, index, milvus
from retrieval.store import PASSAGES, write_store
from tests.retrieval.serving import serving

Setup = Callable[[Corpus, Path], AbstractContextManager[Any]]


@contextmanager
def of_index(corpus: Corpus, scratch: Path) -> Iterator[index.Config]:
    write_store(corpus.passages, scratch)
    build_index(scratch / "passages.jsonl", scratch / "index", "bm25s", bm25s.Config())
    yield index.Config(str(scratch / "index"))


@contextmanager
def of_http(corpus: Corpus, scratch: Path) -> Iterator[http.Config]:
    write_store(corpus.passages, scratch)
    with serving("--retriever", "bm25s", "--corpus", str(scratch / PASSAGES)) as server:
        yield http.Config((server.url,))


@contextmanager
def of_cassette(corpus: Corpus, scratch: Path) -> Iterator[cassette.Config]:
    yield cassette.Config(str(scratch / "answers.jsonl"), "auto", "bm25s")


@contextmanager
def of_milvus(corpus: Corpus, scratch: Path) -> Iterator[milvus.Config]:
    yield milvus.Config(uri=str(scratch / "passages.db"))


SETUPS: dict[str, Setup] = {
    "cassette": of_cassette,
    "http": of_http,
    "index": of_index,
    "milvus": of_milvus,
}
