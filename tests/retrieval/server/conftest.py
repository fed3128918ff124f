"""One real server for the tests of this folder, and what it must answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from retrieval.retrievers import bm25s
from retrieval.store import PASSAGES, write_store
from retrieval.types import Retriever
from tests.retrieval.server.passages import CORPUS
from tests.retrieval.serving import Server, serving


@pytest.fixture(scope="session")
def corpus_file(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_store(CORPUS.passages, folder)
    return folder / PASSAGES


@pytest.fixture(scope="session")
def server(corpus_file) -> Iterator[Server]:
    with serving("--retriever", "bm25s", "--corpus", str(corpus_file)) as running:
        yield running


@pytest.fixture(scope="session")
def engine() -> Retriever:
    return bm25s.build(bm25s.Config(), CORPUS)
