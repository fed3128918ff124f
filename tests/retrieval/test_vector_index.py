"""Search on real FAISS files against plain numpy."""

import os
import threading

import faiss
import numpy as np
import pytest

from retrieval.errors import InputError
from retrieval.faiss_types import make_empty, set_effort
from retrieval.vector_index import VectorIndex, write_index
from tests.retrieval.memory import needs_proc, private_bytes


def unit(count, dimension, seed):
    rows = np.random.default_rng(seed).normal(size=(count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def opened(folder, kind, vectors):
    index = make_empty(kind, vectors.shape[1])
    index.train(vectors)
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # as `faiss_types.fill` links a graph of this size
    index.add(vectors)
    faiss.omp_set_num_threads(threads)
    write_index(index, folder / "index")
    return VectorIndex(folder / "index")


def brute_force(queries, vectors, k):
    """Per query: {place: score} of the k best and all that tie with the k-th."""
    scores = (queries.astype(np.float64) @ vectors.astype(np.float64).T).round(6)
    kth = -np.sort(-scores, axis=1)[:, min(k, len(vectors)) - 1]
    return [
        {place: row[place] for place in np.flatnonzero(row >= least).tolist()}
        for row, least in zip(scores, kth, strict=True)
    ]


def as_dicts(found):
    return [dict(zip(places.tolist(), scores.tolist(), strict=True)) for places, scores in found]


@pytest.mark.parametrize("k", [1, 3, 10, 100, 3000, 10**20])
def test_flat_is_brute_force_to_the_last_digit_for_500_queries(tmp_path, k):
    vectors, queries = unit(3000, 48, 0), unit(500, 48, 1)
    index = opened(tmp_path, "Flat", vectors)
    assert as_dicts(index.nearest(queries, k)) == brute_force(queries, vectors, k)


def test_vectors_that_are_not_normalised(tmp_path):
    vectors, queries = 40 * unit(2000, 32, 0), 30 * unit(50, 32, 1)
    index = opened(tmp_path, "Flat", vectors)
    assert as_dicts(index.nearest(queries, 10)) == brute_force(queries, vectors, 10)


@pytest.mark.parametrize("kind", ["Flat", "IVF8,Flat", "HNSW16"])
def test_all_that_tie_with_the_kth_are_found_however_many(tmp_path, kind):
    """700 equal vectors: FAISS would give whichever it met first."""
    vectors = unit(1000, 16, 0)
    vectors[150:850] = vectors[0]
    index = opened(tmp_path, kind, vectors)
    set_effort(index.index, 8, 2000)
    ((places, scores),) = index.nearest(vectors[:1], 3)
    ties = {0, *range(150, 850)}
    if kind == "HNSW16":
        # A graph links each of many equal vectors to a few others only, and those that no path
        # leads to are not found at any effort: FAISS promises no more than this.
        assert len(places) >= 3 and set(places.tolist()) <= ties
    else:
        assert set(places.tolist()) == ties
    assert set(scores.tolist()) == {1.0}


@pytest.mark.parametrize("kind", ["Flat", "IVF16,SQ8", "HNSW16", "PQ4x4"])
def test_a_batch_is_its_queries_one_by_one(tmp_path, kind):
    """FAISS sums in another order from 20 queries on."""
    vectors, queries = unit(2000, 32, 0), unit(64, 32, 1)
    index = opened(tmp_path, kind, vectors)
    together = as_dicts(index.nearest(queries, 7))
    assert together == [as_dicts(index.nearest(query[None], 7))[0] for query in queries]


@pytest.mark.parametrize("kind", ["SQ8", "PQ4x4", "IVF4,PQ4x4", "OPQ4,IVF4,PQ4x4"])
def test_scores_are_those_of_the_vectors_as_they_are_kept(tmp_path, kind):
    vectors, queries = unit(500, 32, 0), unit(20, 32, 1)
    index = opened(tmp_path, kind, vectors)
    faiss_scores, faiss_places = index.index.search(queries, 10)
    for query, (places, scores) in enumerate(index.nearest(queries, 10)):
        ours = dict(zip(places.tolist(), scores.tolist(), strict=True))
        for place, score in zip(faiss_places[query], faiss_scores[query], strict=True):
            if place in ours:  # a tie of compressed vectors may put another in its place
                assert ours[place] == pytest.approx(score, abs=1e-5)


def test_lists_that_hold_fewer_than_k_give_fewer(tmp_path):
    vectors = unit(400, 16, 0)
    index = opened(tmp_path, "IVF20,Flat", vectors)
    set_effort(index.index, 1, 1)
    ((places, _),) = index.nearest(vectors[:1], 300)
    assert 0 < len(places) < 300
    assert places.min() >= 0, "FAISS fills up with -1"


def test_many_hits_of_many_queries_are_given_back_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("retrieval.vector_index._BLOCK", 16 * 26 * 3)  # 3 queries at k = 10
    vectors, queries = unit(300, 16, 0), unit(10, 16, 1)
    index = opened(tmp_path, "Flat", vectors)
    assert as_dicts(index.nearest(queries, 10)) == brute_force(queries, vectors, 10)


def test_threads_get_what_one_gets(tmp_path):
    vectors, queries = unit(2000, 32, 0), unit(40, 32, 1)
    index = opened(tmp_path, "IVF16,SQ8", vectors)
    expected, wrong = as_dicts(index.nearest(queries, 5)), []

    def ask():
        for _ in range(10):
            if as_dicts(index.nearest(queries, 5)) != expected:
                wrong.append("differs")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@needs_proc
@pytest.mark.parametrize("kind", ["Flat", "HNSW4", "IVF16,Flat", "SQ8", "IVF16,SQfp16"])
def test_an_open_index_is_mapped_not_read(tmp_path, kind):
    vectors = unit(8000, 1024, 0)
    opened(tmp_path, kind, vectors)
    size = os.path.getsize(tmp_path / "index")
    before = private_bytes()
    index = VectorIndex(tmp_path / "index")
    index.nearest(vectors[:1], 10)
    assert size > 8_000_000
    assert private_bytes() - before < size / 4


@pytest.mark.parametrize("cut", [0, 10, 0.5, 0.99])
def test_a_file_that_is_cut_short_is_refused(tmp_path, cut):
    opened(tmp_path, "IVF4,Flat", unit(500, 16, 0))
    whole = (tmp_path / "index").read_bytes()
    (tmp_path / "index").write_bytes(whole[: int(cut * len(whole)) if cut < 1 else cut])
    with pytest.raises(InputError, match=r"index: cannot be read \(.*build it again$"):
        VectorIndex(tmp_path / "index")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        VectorIndex(tmp_path / "index")
