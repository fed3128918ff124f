import shutil

import pytest

from retrieval.anserini import write_index
from retrieval.corpus import Corpus
from retrieval.errors import InputError
from retrieval.retrievers import lucene, lucene_prebuilt
from retrieval.types import Passage
from tests.contracts.retriever_setups import index_with_anserini, search_r1_rows

pytestmark = pytest.mark.java

PASSAGES = [
    Passage("a", "Heron", "It waits beside the river."),
    Passage("b", "", 'A "quoted" text\nof two lines.'),
    Passage("c", "River", "The river runs."),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    rows = search_r1_rows(PASSAGES)
    return index_with_anserini(rows, tmp_path_factory.mktemp("prebuilt"), "-storeRaw")


def build(folder, passages=None, **settings):
    corpus = None if passages is None else Corpus.of(passages)
    return lucene_prebuilt.build(lucene_prebuilt.Config(path=str(folder), **settings), corpus)


def found(retriever, query):
    return [hit.passage for hit in retriever.search([query], 5)[0]]


def test_passages_come_from_the_index(index):
    retriever = build(index)
    assert found(retriever, "rivers") == [PASSAGES[2], PASSAGES[0]]
    assert found(retriever, "quotes") == [PASSAGES[1]]


def test_it_searches_as_lucene_does(index):
    ours = build(index, k1=1.5, b=0.8)
    other = lucene.build(lucene.Config(k1=1.5, b=0.8), Corpus.of(PASSAGES))
    queries = ["river", "heron waits", "two lines of the river"]
    assert ours.search(queries, 5) == other.search(queries, 5)


def test_contents_serve_where_raw_is_not_stored(tmp_path):
    folder = index_with_anserini(search_r1_rows(PASSAGES), tmp_path, "-storeContents")
    assert found(build(folder), "rivers") == [PASSAGES[2], PASSAGES[0]]


def test_medrags_rows_are_read_by_their_fields(tmp_path):
    row = {"id": "m", "title": "Heart", "content": "It beats.", "contents": "Heart. It beats."}
    folder = index_with_anserini([row], tmp_path, "-storeRaw")
    assert found(build(folder), "beat") == [Passage("m", "Heart", "It beats.")]


def test_an_index_that_stores_no_passages_is_refused(tmp_path):
    write_index([("a", "heron")], tmp_path, "english", False)
    with pytest.raises(InputError, match="stores no passages; make one with --storeRaw"):
        build(tmp_path)


def test_the_fingerprint_is_of_the_files_and_changes_with_them(index, tmp_path):
    name = build(index).fingerprint
    assert name.startswith("lucene:") and len(name) == len("lucene:") + 64
    copy = shutil.copytree(index, tmp_path / "copy")
    assert build(copy).fingerprint == name
    # The same passages once more: Lucene's segments carry another random id.
    again = index_with_anserini(search_r1_rows(PASSAGES), tmp_path / "again", "-storeRaw")
    assert build(again).fingerprint != name


def test_the_corpus_that_is_given_gives_the_fingerprint(index):
    # Its order is not the index's business.
    assert build(index, PASSAGES[::-1]).fingerprint == Corpus.of(PASSAGES[::-1]).fingerprint


@pytest.mark.parametrize(
    ("passages", "message"),
    [
        (PASSAGES[:2], "it has 3 passages, not 2"),
        ([*PASSAGES[:2], Passage("d", "River", "The river runs.")], "'d' is missing there"),
        ([*PASSAGES[:2], Passage("c", "River", "It runs.")], "'c' is another there"),
        ([*PASSAGES[:2], Passage("c", "", "The river runs.")], "'c' is another there"),
    ],
)
def test_another_corpus_is_refused(index, passages, message):
    with pytest.raises(InputError, match=f"was built of another corpus: .*{message}"):
        build(index, passages)


@pytest.mark.parametrize(
    ("path", "message"),
    [("", "path is missing"), ("/nope", "no such folder"), (".", "cannot be opened as a Lucene")],
)
def test_what_is_no_index_is_refused(tmp_path, monkeypatch, path, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        build(path)


def test_rm3_needs_vectors(index, tmp_path):
    with pytest.raises(InputError, match="RM3 needs an index with document vectors"):
        build(index, rm3=True)
    # RM3 passes over words that a tenth of the passages hold.
    others = [Passage(f"{n}", "", f"filler{n}") for n in range(30)]
    rows = search_r1_rows([*PASSAGES, *others])
    vectors = index_with_anserini(rows, tmp_path, "-storeRaw", "-storeDocvectors")
    assert PASSAGES[2] in found(build(vectors, rm3=True), "heron")
