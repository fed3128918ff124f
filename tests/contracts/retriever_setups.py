"""How the contract tests set up the engines that need more than `Config()` over a corpus.

A setup is a context manager: (corpus, scratch folder) -> the engine's Config. Engines that are not
listed here are built with `Config()`.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from retrieval.corpus import Corpus
from retrieval.index import build_index
from retrieval.java import java_class
from retrieval.retrievers import bm25s, cassette, http, index, lucene_prebuilt, milvus
from retrieval.store import PASSAGES, write_store
from retrieval.types import Passage
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


def index_with_anserini(rows: Iterable[dict[str, str]], folder: Path, *flags: str) -> Path:
    """What pyserini's command line makes of a folder of JSON Lines."""
    source = folder / "rows"
    source.mkdir(parents=True)
    with (source / "rows.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    args = [
        "-collection",
        "JsonCollection",
        "-input",
        str(source),
        "-index",
        str(folder / "lucene"),
    ]
    args += ["-generator", "DefaultLuceneDocumentGenerator", "-threads", "1", "-quiet", *flags]
    java_class("io.anserini.index.IndexCollection").main(args)
    return folder / "lucene"


def search_r1_rows(passages: Iterable[Passage]) -> Iterator[dict[str, str]]:
    return ({"id": p.id, "contents": f'"{p.title}"\n{p.text}'} for p in passages)


@contextmanager
def of_anserini(corpus: Corpus, scratch: Path) -> Iterator[lucene_prebuilt.Config]:
    folder = index_with_anserini(search_r1_rows(corpus.passages), scratch, "-storeRaw")
    yield lucene_prebuilt.Config(path=str(folder))


SETUPS: dict[str, Setup] = {
    "cassette": of_cassette,
    "http": of_http,
    "index": of_index,
    "lucene_prebuilt": of_anserini,
    "milvus": of_milvus,
}
