import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.corpus import Corpus
from retrieval.ranking import Ranker, rank_ids
from retrieval.types import Hit, Passage


def corpus_of(ids):
    return Corpus.of(Passage(identifier, "", "x") for identifier in ids)


def test_the_ids_decide_which_ties_are_hits():
    corpus = corpus_of(["d", "b", "10", "9", "a", "c"])
    hits = Ranker(corpus).hits(np.arange(6), np.array([1.0, 2.0, 1.0, 1.0, 1.0, 1.0]), 4)
    # Ids are text: "10" comes before "9".
    assert [(hit.passage.id, hit.rank) for hit in hits] == [("b", 1), ("10", 2), ("9", 3), ("a", 4)]


def test_sums_in_another_order_tie():
    scores = np.array([0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1])
    assert scores[0] > scores[1]
    hits = Ranker(corpus_of("ba")).hits(np.arange(2), scores, 1)
    assert hits == [Hit(Passage("a", "", "x"), 0.6, 1)]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    candidates=st.dictionaries(st.integers(0, 19), st.integers(-2, 2), max_size=20),
    k=st.integers(1, 25),
    ids=st.permutations([str(number) for number in range(20)]),
)
def test_hits_equal_a_full_sort(candidates, k, ids):
    corpus = corpus_of(ids)
    positions = np.array(list(candidates), dtype=np.intp)
    scores = np.array(list(candidates.values()), dtype=float)
    pairs = sorted((-score, ids[position]) for position, score in candidates.items())
    hits = Ranker(corpus).hits(positions, scores, k)
    assert [(-hit.score, hit.passage.id) for hit in hits] == pairs[:k]
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))


def test_ids_are_ranked_as_text():
    ranks = rank_ids(corpus_of(["b", "10", "9", "é", "a", "\U0001f600", "\uffff"]))
    # 10 < 9 < a < b < é < U+FFFF < U+1F600: code points, not UTF-16.
    assert ranks.tolist() == [3, 0, 1, 4, 2, 6, 5]


def test_ranks_that_were_kept_break_ties_alike(tmp_path):
    corpus = corpus_of(["d", "b", "c", "a"])
    np.save(tmp_path / "ranks.npy", rank_ids(corpus))
    kept = Ranker(corpus, np.load(tmp_path / "ranks.npy", mmap_mode="r"))
    arguments = (np.arange(4), np.array([1.0, 2.0, 1.0, 1.0]), 3)
    assert kept.hits(*arguments) == Ranker(corpus).hits(*arguments)
