import sys
import threading
from pathlib import Path

import pytest

from envs.datasets import atlas
from retrieval.corpus import Corpus
from retrieval.errors import InputError, RetrievalError
from retrieval.fusion import by_reciprocal_rank, by_weighted_score
from retrieval.index import build_index
from retrieval.retrievers import bm25s, hybrid, rank_bm25
from retrieval.store import write_store

WORLD = atlas.build(atlas.Config(people=40, limit=30))
CORPUS = Corpus.of(WORLD.passages)
QUERIES = [question.text for question in WORLD.questions]

# A part that is a plug-in outside the folder: what it does is set by the tests.
PART = '''"""A part for tests."""
from dataclasses import dataclass

@dataclass(frozen=True)
class Config:
    """Nothing."""

class Part:
    def __init__(self, corpus):
        self.corpus = corpus
    def search(self, queries, k):
        return BEHAVE(queries, k)

BEHAVE = None

def build(config, corpus):
    return Part(corpus)
'''


@pytest.fixture
def part(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/__init__.py").touch()
    (tmp_path / "mine/part.py").write_text(PART)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield __import__("mine.part").part
    for name in ("mine", "mine.part"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("fusion", "fuse"), [("rrf", by_reciprocal_rank), ("weighted", by_weighted_score)]
)
def test_it_fuses_what_its_parts_find(fusion, fuse):
    config = hybrid.Config(fusion=fusion, weights=(1.0, 2.5), depth=20)
    engine = hybrid.build(config, CORPUS)
    parts = [
        module.build(module.Config(), CORPUS).search(QUERIES, 20) for module in (bm25s, rank_bm25)
    ]
    expected = [fuse(each, (1.0, 2.5), 5) for each in zip(*parts, strict=True)]
    assert engine.search(QUERIES, 5) == expected
    # Up to the depth, the answer for fewer passages is the beginning of the answer for more.
    assert [hits[:3] for hits in engine.search(QUERIES, 20)] == engine.search(QUERIES, 3)


def test_a_search_for_more_than_the_depth_asks_the_parts_for_as_many():
    shallow = hybrid.build(hybrid.Config(depth=1), CORPUS)
    deep = hybrid.build(hybrid.Config(depth=30), CORPUS)
    assert shallow.search(QUERIES, 30) == deep.search(QUERIES, 30)
    assert shallow.search(QUERIES, 3) != deep.search(QUERIES, 3)


def test_the_parts_are_asked_at_the_same_time(part):
    # Each waits for the other: one after the other, the first would wait for ever.
    both = threading.Barrier(2, timeout=30)

    def wait(queries, k):
        both.wait()
        return [[] for _ in queries]

    part.BEHAVE = wait
    engine = hybrid.build(hybrid.Config(of=("mine.part", "mine.part")), CORPUS)
    assert engine.search(["x", "y"], 1) == [[], []]


def broken(queries, k):
    raise RetrievalError("no answer within 5 s")


def unplugged(queries, k):
    raise ConnectionResetError("reset by peer")


def mute(queries, k):
    return []


@pytest.mark.parametrize(
    ("behave", "message"),
    [
        (broken, "mine.part: no answer within 5 s"),
        (unplugged, "mine.part: reset by peer"),
        (mute, "mine.part: 0 answers to 1 queries"),
    ],
)
def test_a_part_that_fails_fails_the_search_and_is_named(part, behave, message):
    part.BEHAVE = behave
    engine = hybrid.build(hybrid.Config(of=("bm25s", "mine.part")), CORPUS)
    with pytest.raises(RetrievalError, match=f"^{message}"):
        engine.search(QUERIES[:1], 3)


def test_a_bug_in_a_part_is_not_a_failed_search(part):
    def bug(queries, k):
        raise KeyError("oops")

    part.BEHAVE = bug
    engine = hybrid.build(hybrid.Config(of=("bm25s", "mine.part")), CORPUS)
    with pytest.raises(KeyError, match="oops"):
        engine.search(QUERIES[:1], 3)


def indexed(folder: Path, passages, name: str) -> str:
    folder.mkdir()
    write_store(passages, folder)
    build_index(folder / "passages.jsonl", folder / "index", name, bm25s.Config())
    return str(folder / "index")


def test_index_folders_need_no_corpus_but_must_be_of_the_same(tmp_path):
    whole = indexed(tmp_path / "whole", CORPUS.passages, "bm25s")
    fewer = indexed(tmp_path / "fewer", CORPUS.passages[1:], "bm25s")
    config = hybrid.Config(of=(whole, whole))
    assert not hybrid.needs_corpus(config)
    engine = hybrid.build(config, None)
    assert engine.fingerprint == CORPUS.fingerprint
    # Twice the same ranks: the order of one.
    alone = bm25s.build(bm25s.Config(), CORPUS).search(QUERIES, 5)
    assert [[hit.passage for hit in hits] for hits in engine.search(QUERIES, 5)] == [
        [hit.passage for hit in hits] for hits in alone
    ]
    with pytest.raises(InputError, match=r"of: .* different corpora: .*whole.*fewer"):
        hybrid.build(hybrid.Config(of=(whole, fewer)), None)
    assert hybrid.needs_corpus(hybrid.Config(of=(whole, "bm25s")))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"of": ()}, r"of is \(\): name two or more engines"),
        ({"of": ("bm25s",)}, "name two or more"),
        ({"fusion": "borda"}, "fusion is 'borda'; choose one of rrf, weighted"),
        ({"weights": (1.0,)}, r"weights are \(1.0,\): give one for each of the 2 engines"),
        ({"weights": (1.0, 0.0)}, "each must be more than 0"),
        ({"weights": (1.0, float("nan"))}, "each must be more than 0"),
        ({"depth": 0}, "depth is 0: it must be 1 or more"),
    ],
)
def test_a_wrong_setting_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        hybrid.Config(**settings)
