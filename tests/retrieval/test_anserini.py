import os
import resource

import pytest

from envs.datasets import atlas
from retrieval.anserini import RM3, Searcher, _writer, analyze, write_index
from retrieval.errors import InputError, RetrievalError
from retrieval.java import java_class
from tests.contracts.retriever_setups import index_with_anserini, search_r1_rows

pytestmark = pytest.mark.java

TEXT = "The O'Neils' Vitamins aren't U.S. 1,000-fold running; Bohr's café_au 東京"


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("plain", "the o'neils vitamins aren't u.s 1,000 fold running bohr café_au 東 京"),
        ("stop", "o'neils vitamins aren't u.s 1,000 fold running bohr café_au 東 京"),
        # Porter's stems.
        ("english", "o'neil vitamin aren't u. 1,000 fold run bohr café_au 東 京"),
    ],
)
def test_the_analyzers_are_lucenes_under_our_names(name, terms):
    assert analyze(name, TEXT) == terms.split()


@pytest.fixture(scope="module")
def world():
    return atlas.build(atlas.Config(people=60))


@pytest.fixture(scope="module")
def index(world, tmp_path_factory):
    """An index of Anserini's own indexer."""
    rows = search_r1_rows(world.passages)
    return index_with_anserini(rows, tmp_path_factory.mktemp("anserini"), "-storeDocvectors")


@pytest.mark.parametrize("rm3", [None, RM3(passages=5, terms=8, weight=0.6)])
@pytest.mark.parametrize("k", [1, 10, 300])
def test_pyserinis_searcher_finds_the_same(index, world, monkeypatch, rm3, k):
    """Its scores are ours rounded to 4 decimals, less 1e-6 for each hit that ties with the last."""
    # Its import wants the key of a service that it does not call here.
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    from pyserini.search.lucene import LuceneSearcher

    theirs = LuceneSearcher(str(index))
    theirs.set_bm25(0.9, 0.4)
    if rm3 is not None:
        theirs.set_rm3(rm3.terms, rm3.passages, rm3.weight)
    ours = Searcher(index, "english", 0.9, 0.4, rm3)
    queries = [question.text for question in world.questions[:40]]
    for query, found in zip(queries, ours.search(queries, k, list), strict=True):
        expected = theirs.search(query, k)
        assert [hit.id for hit in found] == [hit.docid for hit in expected]
        for hit, other in zip(found, expected, strict=True):
            assert hit.score == pytest.approx(other.score, abs=6e-5 + 1e-6 * k)


def test_our_index_is_the_one_that_anserini_makes(index, world, tmp_path):
    write_index(
        ((p.id, f'"{p.title}"\n{p.text}') for p in world.passages), tmp_path, "english", True
    )
    ours, theirs = (Searcher(folder, "english", 0.9, 0.4, None) for folder in (tmp_path, index))
    assert (ours.documents, ours.terms) == (theirs.documents, theirs.terms)
    assert ours.documents == len(world.passages)
    queries = [question.text for question in world.questions]
    pairs = zip(ours.search(queries, 20, list), theirs.search(queries, 20, list), strict=True)
    for mine, other in pairs:
        named = [(world.passages[hit.number].id, hit.score) for hit in mine]
        assert named == [(hit.id, hit.score) for hit in other]
        assert {hit.id for hit in mine} <= {None}


def test_documents_stay_in_order_through_many_merges(tmp_path, monkeypatch):
    """3,000 documents in hundreds of segments, merged in the background while others come."""
    monkeypatch.setattr("retrieval.anserini._BUFFER_MB", 0.05)
    monkeypatch.setattr("retrieval.anserini._BATCH_DOCUMENTS", 50)
    write_index(((f"{n}", f"word{n} shared") for n in range(3000)), tmp_path, "plain", False)
    searcher = Searcher(tmp_path, "plain", 0.9, 0.4, None)
    assert searcher._reader.leaves().size() > 1
    names = [file.name.split(".")[0].split("_")[1] for file in tmp_path.glob("_*.fdt")]
    assert max(int(name, 36) for name in names) > 60, "too few segments to be a test"
    found = searcher.search([f"word{n}" for n in range(3000)], 1, list)
    assert [hits[0].number for hits in found] == list(range(3000))


def test_an_index_in_the_folder_is_replaced(tmp_path):
    for word in ("old", "new"):
        write_index([("a", word)], tmp_path, "plain", False)
    searcher = Searcher(tmp_path, "plain", 0.9, 0.4, None)
    assert searcher.search(["old"], 1, list) == [[]] and searcher.documents == 1


def test_stored_fields_are_those_asked_for(tmp_path):
    rows = [{"id": "a", "contents": "heron"}, {"id": "b", "contents": "river"}]
    folder = index_with_anserini(rows, tmp_path, "-storeContents")
    searcher = Searcher(folder, "plain", 0.9, 0.4, None)
    assert searcher.stored("b", ["contents", "raw"]) == {"contents": "river", "raw": None}
    assert searcher.stored("c", ["contents"]) is None
    assert searcher.first(["contents"]) == {"contents": "heron"}
    ((hit,),) = searcher.search(["river"], 3, list, ["contents"])
    assert (hit.id, hit.document) == ("b", {"contents": "river"})


@pytest.mark.parametrize("limit", [0, 200, 20_000])
def test_a_full_disk_is_an_os_error_and_leaves_no_index(tmp_path, limit):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    java_class("java.lang.String")  # started before the limit counts
    texts = ((str(n), " ".join(f"word{n * 7 + m}" for m in range(30))) for n in range(3000))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        with pytest.raises(OSError, match="File too large"):
            write_index(texts, tmp_path, "plain", False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with pytest.raises(InputError, match="cannot be opened as a Lucene index"):
        Searcher(tmp_path, "plain", 0.9, 0.4, None)
    write_index([("a", "word")], tmp_path, "plain", False)
    assert Searcher(tmp_path, "plain", 0.9, 0.4, None).documents == 1


def test_a_stream_that_fails_leaves_no_index_and_no_lock(tmp_path):
    def documents():
        yield "a", "word"
        raise InputError("the corpus is wrong")

    with pytest.raises(InputError, match="the corpus is wrong"):
        write_index(documents(), tmp_path, "plain", False)
    write_index([("a", "word")], tmp_path, "plain", False)


@pytest.mark.parametrize("rm3", [None, RM3(2, 5, 0.5)])
def test_an_index_that_cannot_sort_by_id_is_searched_too(tmp_path, rm3):
    """Anserini's indexes of Lucene 8, wiki-18's among them, hold no sortable id."""
    texts = {"d": "heron", "b": "heron", "c": "heron river", "a": "heron"}
    texts |= {f"other{n}": f"filler{n}" for n in range(50)}
    kind = java_class("org.apache.lucene.document.FieldType")
    stored = java_class("org.apache.lucene.document.Field$Store").YES
    of_text = kind(java_class("org.apache.lucene.document.TextField").TYPE_STORED)
    of_text.setStoreTermVectors(True)
    writer = _writer(tmp_path, "plain")
    for name, text in texts.items():
        document = java_class("org.apache.lucene.document.Document")()
        signature = (
            "(Ljava/lang/String;Ljava/lang/String;Lorg/apache/lucene/document/Field$Store;)V"
        )
        field = java_class("org.apache.lucene.document.StringField")
        document.add(field("id", name, stored, signature=signature))
        signature = (
            "(Ljava/lang/String;Ljava/lang/CharSequence;"
            "Lorg/apache/lucene/index/IndexableFieldType;)V"
        )
        field = java_class("org.apache.lucene.document.Field")
        document.add(field("contents", text, of_text, signature=signature))
        writer.addDocument(document)
    writer.close()
    searcher = Searcher(tmp_path, "plain", 0.9, 0.4, rm3)
    found = searcher.search(["heron", "zzyzx"], 10, list, ["contents"])
    assert [hit.id for hit in found[0]] == ["a", "b", "d", "c"] and found[1] == []
    assert all(hit.document["contents"] == texts[hit.id] for hit in found[0])


def test_what_is_no_index_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be opened as a Lucene index: IndexNotFound"):
        Searcher(tmp_path, "plain", 0.9, 0.4, None)


def test_rm3_needs_document_vectors(tmp_path):
    write_index([("a", "word")], tmp_path, "plain", False)
    with pytest.raises(InputError, match="RM3 needs an index with document vectors"):
        Searcher(tmp_path, "plain", 0.9, 0.4, RM3(10, 10, 0.5))


def test_a_search_that_fails_is_a_retrieval_error(tmp_path):
    write_index([("a", "word")], tmp_path, "plain", False)
    searcher = Searcher(tmp_path, "plain", 0.9, 0.4, None)
    searcher._reader.close()
    with pytest.raises(RetrievalError, match="Lucene failed: AlreadyClosedException"):
        searcher.search(["word"], 1, list)


def test_files_are_closed_with_the_searcher(tmp_path):
    write_index([("a", "word")], tmp_path, "plain", False)
    searcher = Searcher(tmp_path, "plain", 0.9, 0.4, None)

    def mapped():
        return str(tmp_path) in open(f"/proc/{os.getpid()}/maps").read()

    assert mapped()
    del searcher
    assert not mapped()
