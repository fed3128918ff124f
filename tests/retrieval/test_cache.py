import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from retrieval.cache import CachedRetriever
from retrieval.corpus import Corpus
from retrieval.errors import InputError, RetrievalError
from retrieval.retrievers import bm25s
from retrieval.types import Passage

CORPUS = Corpus.of(Passage(f"p{n}", f"title{n}", f"word{n} shared word{n + 1}") for n in range(30))
ENGINE = bm25s.build(bm25s.Config(), CORPUS)


class Recorder:
    """The engine, with a record of the batches it was asked and a fault to show on demand."""

    def __init__(self):
        self.batches = []
        self.fault = None

    def search(self, queries, k):
        self.batches.append((list(queries), k))
        if self.fault:
            raise self.fault
        return ENGINE.search(queries, k)


@pytest.fixture
def engine():
    return Recorder()


def test_prefetch_asks_once_for_what_is_missing_and_search_then_asks_nothing(engine):
    cached = CachedRetriever(engine)
    cached.search(["word1"], 3)
    cached.prefetch(["word2", "word1", "word3", "word2", ""], 3)
    assert engine.batches == [(["word1"], 3), (["word2", "word3", ""], 3)]
    for query in ("word1", "word2", "word3", ""):
        assert cached.search([query], 3) == ENGINE.search([query], 3)
    assert len(engine.batches) == 2
    assert (cached.hits, cached.misses) == (4, 4)


def test_a_search_asks_for_its_misses_in_one_batch_and_keeps_the_order(engine):
    cached = CachedRetriever(engine)
    cached.search(["word5"], 2)
    queries = ["word9", "word5", "nothing", "word9", "word4"]
    assert cached.search(queries, 2) == ENGINE.search(queries, 2)
    assert engine.batches[1:] == [(["word9", "nothing", "word4"], 2)]
    assert (cached.hits, cached.misses) == (2, 4)


def test_another_k_is_another_question(engine):
    cached = CachedRetriever(engine)
    assert len(cached.search(["shared"], 5)[0]) == 5
    assert len(cached.search(["shared"], 7)[0]) == 7
    assert cached.misses == 2


def test_callers_cannot_change_what_is_remembered(engine):
    cached = CachedRetriever(engine)
    cached.search(["word1"], 3)[0].clear()
    assert cached.search(["word1"], 3) == ENGINE.search(["word1"], 3)


def test_an_empty_batch_asks_nothing(engine):
    cached = CachedRetriever(engine)
    assert cached.search([], 3) == []
    cached.prefetch([], 3)
    assert engine.batches == []


def test_the_least_recently_used_answer_goes_first(engine):
    cached = CachedRetriever(engine, max_entries=2)
    cached.search(["word1"], 3)
    cached.search(["word2"], 3)
    cached.search(["word1"], 3)
    cached.search(["word3"], 3)  # word2 goes
    cached.search(["word1"], 3)
    assert engine.batches == [(["word1"], 3), (["word2"], 3), (["word3"], 3)]
    cached.search(["word2"], 3)
    assert engine.batches[3:] == [(["word2"], 3)]


def test_a_memo_too_small_for_the_batch_still_answers_it(engine):
    cached = CachedRetriever(engine, max_entries=2)
    queries = [f"word{number}" for number in range(10)]
    assert cached.search(queries, 3) == ENGINE.search(queries, 3)
    cached.prefetch(queries, 3)
    assert [cached.search([query], 3)[0] for query in queries] == ENGINE.search(queries, 3)


@pytest.mark.parametrize("call", ["search", "prefetch"])
@pytest.mark.parametrize("fault", [RetrievalError("down"), InputError("bad"), KeyError("a bug")])
def test_the_engines_own_errors_pass_as_they_are(engine, call, fault):
    cached = CachedRetriever(engine)
    engine.fault = fault
    with pytest.raises(type(fault)) as caught:
        getattr(cached, call)(["word1", "word2"], 3)
    assert caught.value is fault


@pytest.mark.parametrize("fault", [TimeoutError("slow"), ConnectionResetError(), OSError("disk")])
def test_a_failing_system_is_a_retrieval_error_with_its_cause(engine, fault):
    cached = CachedRetriever(engine)
    engine.fault = fault
    with pytest.raises(RetrievalError, match=type(fault).__name__) as caught:
        cached.search(["word1"], 3)
    assert caught.value.__cause__ is fault


def test_a_failed_batch_leaves_nothing_behind(engine):
    cached = CachedRetriever(engine)
    cached.search(["word1"], 3)
    engine.fault = RetrievalError("down")
    with pytest.raises(RetrievalError):
        cached.search(["word1", "word2"], 3)
    assert cached.search(["word1"], 3) == ENGINE.search(["word1"], 3)
    engine.fault = None
    assert cached.search(["word2"], 3) == ENGINE.search(["word2"], 3)
    assert engine.batches[-1] == (["word2"], 3)
    assert (cached.hits, cached.misses) == (1, 2)


def test_an_engine_that_answers_too_few_queries_has_failed():
    class Short:
        def search(self, queries, k):
            return ENGINE.search(queries[1:], k)

    with pytest.raises(RetrievalError, match="1 answers to 2 queries"):
        CachedRetriever(Short()).search(["word1", "word2"], 3)


def test_wrong_numbers_are_refused(engine):
    with pytest.raises(InputError, match="max_entries is 0"):
        CachedRetriever(engine, max_entries=0)
    with pytest.raises(InputError, match="k is 0"):
        CachedRetriever(engine).search([], 0)
    with pytest.raises(InputError, match="k is -1"):
        CachedRetriever(engine).prefetch(["word1"], -1)
    assert engine.batches == []


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda cached: pickle.loads(pickle.dumps(cached))]
)
def test_a_copy_answers_alike_and_starts_empty(copied):
    cached = CachedRetriever(ENGINE, max_entries=5)
    answer = cached.search(["word1 shared"], 3)
    twin = copied(cached)
    assert (twin.hits, twin.misses) == (0, 0)
    assert twin.search(["word1 shared"], 3) == answer


def test_threads_share_it():
    cached = CachedRetriever(ENGINE, max_entries=7)
    queries = [f"word{number % 20} shared" for number in range(1000)]
    expected = {query: ENGINE.search([query], 3)[0] for query in queries}

    def ask(query):
        cached.prefetch([query, "word3"], 3)
        return cached.search([query], 3)[0]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, queries))
    finally:
        sys.setswitchinterval(interval)
    assert answers == [expected[query] for query in queries]
    assert cached.hits <= len(queries) <= cached.hits + cached.misses
