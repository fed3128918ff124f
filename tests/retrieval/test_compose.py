import pytest

from retrieval import plugins
from retrieval.compose import (
    describe,
    fingerprint_of,
    needs_corpus,
    open_engine,
    spec_needs_corpus,
)
from retrieval.corpus import Corpus
from retrieval.errors import InputError
from retrieval.index import build_index
from retrieval.retrievers import bm25s, hybrid
from retrieval.store import write_store
from retrieval.types import Passage

CORPUS = Corpus.of([Passage("a", "Heron", "A bird."), Passage("b", "Radium", "A metal.")])
OTHER = Corpus.of([Passage("c", "Tacoma", "A city.")])


@pytest.fixture
def index(tmp_path):
    write_store(CORPUS.passages, tmp_path)
    folder = tmp_path / "index"
    build_index(tmp_path / "passages.jsonl", folder, "bm25s", bm25s.Config(k1=1.5))
    return str(folder)


def test_a_name_is_that_engine_with_its_default_settings():
    found = open_engine("bm25s", CORPUS).search(["heron"], 1)
    assert found == bm25s.build(bm25s.Config(), CORPUS).search(["heron"], 1)
    assert found[0][0].passage.id == "a"


def test_a_folder_is_the_index_in_it_with_the_settings_it_was_built_with(index):
    expected = bm25s.build(bm25s.Config(k1=1.5), CORPUS).search(["heron bird"], 2)
    assert expected != bm25s.build(bm25s.Config(), CORPUS).search(["heron bird"], 2)
    for corpus in (None, CORPUS):
        opened = open_engine(index, corpus)
        assert opened.search(["heron bird"], 2) == expected
        assert fingerprint_of(opened, corpus) == CORPUS.fingerprint


def test_an_index_of_another_corpus_is_refused(index):
    with pytest.raises(InputError, match="was built of another corpus"):
        open_engine(index, OTHER)


@pytest.mark.parametrize(
    ("spec", "corpus", "message"),
    [
        ("", CORPUS, "an engine is missing: give its name or an index folder"),
        ("bm52", CORPUS, "unknown name 'bm52'; choose one of "),
        ("no/such/index", CORPUS, "no/such/index: no index; make one with python -m"),
        ("bm25s", None, "bm25s: needs passages to index; give a corpus file or an index folder"),
        ("hybrid", None, "hybrid: needs passages to index"),
        ("index", None, "retriever.path is missing"),
    ],
)
def test_what_cannot_be_opened_is_named(spec, corpus, message):
    with pytest.raises(InputError, match=message):
        open_engine(spec, corpus)


def test_who_needs_a_corpus(index):
    assert spec_needs_corpus("bm25s")
    assert not spec_needs_corpus(index)
    for parts, expected in (((index, index), False), ((index, "bm25s"), True)):
        module = plugins.load("retrieval.retrievers", "hybrid")
        assert needs_corpus(module, hybrid.Config(of=parts)) is expected


def test_an_engine_is_described_alike_by_name_and_by_folder(tmp_path, index):
    assert describe(index)["config"]["k1"] == 1.5
    default = tmp_path / "default"
    build_index(tmp_path / "passages.jsonl", default, "hybrid", hybrid.Config())
    assert describe(str(default)) == describe("hybrid")
    assert describe("hybrid")["config"]["of"] == ["bm25s", "rank_bm25"]
