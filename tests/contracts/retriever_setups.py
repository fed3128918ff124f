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
from retrieval.retrievers import bm25s, index, lucene_prebuilt
from retrieval.store import write_store
from retrieval.types import Passage

Setup = Callable[[Corpus, Path], AbstractContextManager[Any]]


@contextmanager
def of_index(corpus: Corpus, scratch: Path) -> Iterator[index.Config]:
    write_store(corpus.passages, scratch)
    build_index(scratch / "passages.jsonl", scratch / "index", "bm25s", bm25s.Config())
    yield index.Config(str(scratch / "index"))


def index_with_anserini(passages: Iterable[Passage], folder: Path) -> Path:
    """What pyserini's command line makes of a folder of JSON Lines in Search-R1's schema."""
    rows = folder / "rows"
    rows.mkdir()
    with (rows / "rows.jsonl").open("w") as file:
        for passage in passages:
            contents = f'"{passage.title}"\n{passage.text}'
            file.write(json.dumps({"id": passage.id, "contents": contents}) + "\n")
    args = ["-collection", "JsonCollection", "-input", str(rows), "-index", str(folder / "lucene")]
    args += ["-generator", "DefaultLuceneDocumentGenerator", "-threads", "1", "-storeRaw"]
    java_class("io.anserini.index.IndexCollection").main([*args, "-storeDocvectors", "-quiet"])
    return folder / "lucene"


@contextmanager
def of_anserini(corpus: Corpus, scratch: Path) -> Iterator[lucene_prebuilt.Config]:
    yield lucene_prebuilt.Config(path=str(index_with_anserini(corpus.passages, scratch)))


SETUPS: dict[str, Setup] = {"index": of_index, "lucene_prebuilt": of_anserini}
