"""Re-ranking on a real (tiny) cross-encoder and on the embedded bi-encoder."""

import copy

import pytest

from retrieval.corpus import Corpus
from retrieval.cross_encoders import load_scorer
from retrieval.errors import InputError, RetrievalError
from retrieval.index import build_index, open_index
from retrieval.retrievers import bm25s, dense, rerank
from retrieval.retrievers.rerank import Config, build
from retrieval.store import write_store
from retrieval.types import Passage
from tests.retrieval.tiny_models import tiny_cross_encoder

CORPUS = Corpus.of(
    [
        Passage("z", "Twin", "a heron at the river"),
        Passage("a", "Twin", "a heron at the river"),
        Passage("b", "", "the river is deep and no bird lives there, said the heron"),
        Passage("c", "Radium", "radium glows"),
        Passage("d", "", "heron heron heron"),
    ]
)
QUERIES = ["where does the heron fish", "radium river", "heron"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(tiny_cross_encoder(tmp_path_factory.mktemp("models") / "cross"))


@pytest.mark.parametrize("kind", ["tiny", "embedded"])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_model_orders_what_the_first_stage_finds(model, kind, k):
    name = model if kind == "tiny" else kind
    first = bm25s.build(bm25s.Config(), CORPUS)
    scorer = load_scorer(name, "cpu")
    answers = build(Config(model=name, device="cpu"), CORPUS).search(QUERIES, k)
    for query, hits, candidates in zip(QUERIES, answers, first.search(QUERIES, 50), strict=True):
        passages = [hit.passage for hit in candidates]
        scores = scorer.score(query, passages, 32).round(6).tolist()
        ranked = sorted(zip(scores, passages, strict=True), key=lambda p: (-p[0], p[1].id))[:k]
        assert [(hit.score, hit.passage) for hit in hits] == ranked
        assert [hit.rank for hit in hits] == list(range(1, len(ranked) + 1))


def test_it_changes_the_order(model):
    before = bm25s.build(bm25s.Config(), CORPUS).search(QUERIES, 5)
    after = build(Config(model=model, device="cpu"), CORPUS).search(QUERIES, 5)
    ids = [[[hit.passage.id for hit in hits] for hits in answers] for answers in (before, after)]
    assert [sorted(hits) for hits in ids[0]] == [sorted(hits) for hits in ids[1]]
    assert ids[0] != ids[1]


class Counting:
    """A first stage that remembers how much it was asked for."""

    def __init__(self):
        self.asked = []
        self.engine = bm25s.build(bm25s.Config(), CORPUS)

    def search(self, queries, k):
        self.asked.append(k)
        return self.engine.search(queries, k)


@pytest.mark.parametrize(("depth", "k", "asked"), [(50, 3, 50), (2, 1, 2), (2, 5, 5)])
def test_depth_is_how_many_candidates_are_scored(depth, k, asked):
    first = Counting()
    (hits,) = rerank.Rerank(Config(depth=depth, device="cpu"), first, "none").search(["heron"], k)
    assert first.asked == [asked]
    assert len(hits) <= k


def test_what_the_first_stage_does_not_find_has_no_rank(model):
    engine = build(Config(model=model, device="cpu"), CORPUS)
    assert engine.search(["zzyzx", ""], 3) == [[], []]


@pytest.fixture
def folder(tmp_path):
    write_store(CORPUS.passages, tmp_path)
    config = dense.Config(device="cpu")
    build_index(tmp_path / "passages.jsonl", tmp_path / "index", "dense", config)
    return str(tmp_path / "index")


@pytest.mark.parametrize("corpus", [None, CORPUS])
def test_the_first_stage_may_be_an_index_folder(folder, model, corpus):
    engine = build(Config(first=folder, model=model, device="cpu"), corpus)
    expected = build(Config(first="dense", model=model, device="cpu"), CORPUS)
    assert engine.search(QUERIES, 4) == expected.search(QUERIES, 4)


def test_an_index_of_it_holds_the_first_stages_own(tmp_path, model):
    write_store(CORPUS.passages, tmp_path)
    config = Config(first="dense", model=model, device="cpu")
    build_index(tmp_path / "passages.jsonl", tmp_path / "index", "rerank", config)
    assert (tmp_path / "index" / "engine" / "index.faiss").exists()
    opened = open_index(tmp_path / "index", CORPUS).retriever
    assert opened.search(QUERIES, 4) == build(config, CORPUS).search(QUERIES, 4)


def test_a_copy_answers_alike(model):
    engine = build(Config(model=model, device="cpu"), CORPUS)
    assert copy.deepcopy(engine).search(QUERIES, 3) == engine.search(QUERIES, 3)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"first": ""}, "^first is empty"),
        ({"model": ""}, "^model is empty"),
        ({"first": "rerank"}, "^first is 'rerank'"),
        ({"depth": 0}, "^depth is 0"),
        ({"batch_size": 0}, "^batch_size is 0"),
    ],
)
def test_a_wrong_setting_is_refused(setting, message):
    with pytest.raises(InputError, match=message):
        Config(**setting)


def test_no_corpus_for_an_engine_that_needs_one_is_refused():
    with pytest.raises(InputError, match="bm25s: needs passages to index"):
        build(Config(device="cpu"), None)


def test_an_unknown_first_stage_is_refused():
    with pytest.raises(InputError, match="unknown name 'bm26'"):
        build(Config(first="bm26", device="cpu"), CORPUS)


def test_a_failure_of_the_model_is_a_retrieval_error(model, monkeypatch):
    engine = build(Config(model=model, device="cpu"), CORPUS)

    def fail(*_):
        raise RuntimeError("CUDA out of memory\nand much more")

    monkeypatch.setattr(type(load_scorer(model, "cpu")), "score", fail)
    with pytest.raises(RetrievalError, match=r"^re-ranking failed: CUDA out of memory$"):
        engine.search(["heron"], 1)
