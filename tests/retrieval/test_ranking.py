import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.corpus import Corpus
from retrieval.ranking import Ranker
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
