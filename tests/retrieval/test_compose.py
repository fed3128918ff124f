import pytest

from retrieval.compose import is_index, open_engine
from retrieval.corpus import Corpus
from retrieval.errors import InputError
from retrieval.index import build_index
from retrieval.retrievers import bm25s
from retrieval.store import write_store
from retrieval.types import Passage

CORPUS = Corpus.of([Passage("a", "", "heron river"), Passage("b", "", "radium")])
OTHER = Corpus.of([Passage("a", "", "heron")])


@pytest.fixture
def folder(tmp_path):
    write_store(CORPUS.passages, tmp_path)
    build_index(tmp_path / "passages.jsonl", tmp_path / "index", "bm25s", bm25s.Config())
    return str(tmp_path / "index")


def test_a_name_is_an_engine_with_its_default_settings():
    engine = open_engine("bm25s", CORPUS)
    expected = bm25s.build(bm25s.Config(), CORPUS)
    assert engine.search(["heron"], 2) == expected.search(["heron"], 2)


def test_a_dotted_name_is_a_module():
    assert type(open_engine("retrieval.retrievers.bm25s", CORPUS)) is bm25s.BM25s


@pytest.mark.parametrize("corpus", [None, CORPUS])
def test_a_folder_is_opened_and_brings_its_passages(folder, corpus):
    (hits,) = open_engine(folder, corpus).search(["heron"], 2)
    assert [hit.passage for hit in hits] == [CORPUS.passages[0]]
    assert is_index(folder)


def test_a_folder_of_another_corpus_is_refused(folder):
    with pytest.raises(InputError, match="built of another corpus"):
        open_engine(folder, OTHER)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("bm25s", "^bm25s needs a corpus: give a corpus file, or an index folder instead$"),
        ("nothing", "unknown name 'nothing'"),
        ("no/such/folder", "^no/such/folder: no index; make one"),
    ],
)
def test_what_cannot_be_opened_is_refused(spec, message):
    with pytest.raises(InputError, match=message):
        open_engine(spec, None)
