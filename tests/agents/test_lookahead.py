"""Searches before the environments ask: when, in which batches, and what becomes of failures."""

import threading
from collections.abc import Sequence
from contextlib import closing

import pytest

from agents.lookahead import Lookahead
from retrieval.cache import CachedRetriever
from retrieval.errors import RetrievalError
from retrieval.types import Hit

PATIENCE_S = 60.0  # of a test that would otherwise hang


class Engine:
    """Answers nothing, once its gate is open; fails for "broken", and has a bug for "bug"."""

    def __init__(self, elsewhere: bool) -> None:
        self.elsewhere = elsewhere
        self.calls: list[list[str]] = []
        self.threads: set[threading.Thread] = set()
        self.begun, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.calls.append(list(queries))
        self.threads.add(threading.current_thread())
        self.begun.set()
        assert self.gate.wait(PATIENCE_S)
        if "broken" in queries:
            raise RetrievalError("the engine is down")
        if "bug" in queries:
            raise ZeroDivisionError
        return [[] for _ in queries]


def test_what_comes_in_while_the_engine_is_busy_is_its_next_batch() -> None:
    engine = Engine(elsewhere=True)
    memo = CachedRetriever(engine)
    engine.gate.clear()
    with closing(Lookahead(memo, 3)) as lookahead:
        lookahead.ask(["a"])
        assert engine.begun.wait(PATIENCE_S)  # nobody waits yet
        lookahead.ask(["b", "c"])
        lookahead.ask([])
        lookahead.ask(["b"])
        engine.gate.set()
        lookahead.wait()
        assert engine.calls == [["a"], ["b", "c"]]
        assert threading.current_thread() not in engine.threads and len(engine.threads) == 1
        memo.search(["c", "b", "a"], 3)  # remembered
        lookahead.wait()
        assert len(engine.calls) == 2
        lookahead.ask(["d"])
        lookahead.wait()
        assert engine.calls[2:] == [["d"]]


def test_an_engine_in_this_process_is_asked_in_one_batch_while_nothing_is_sampled() -> None:
    engine = Engine(elsewhere=False)
    with closing(Lookahead(CachedRetriever(engine), 3)) as lookahead:
        lookahead.ask(["a"])
        lookahead.ask(["b", "a"])
        assert engine.calls == []
        lookahead.wait()
    assert engine.calls == [["a", "b"]]
    assert engine.threads == {threading.current_thread()}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_search_that_fails_is_left_to_the_environments(elsewhere: bool) -> None:
    engine = Engine(elsewhere)
    memo = CachedRetriever(engine)
    with closing(Lookahead(memo, 3)) as lookahead:
        lookahead.ask(["broken"])
        lookahead.wait()
        lookahead.ask(["a"])
        lookahead.wait()
        assert engine.calls == [["broken"], ["a"]]
        with pytest.raises(RetrievalError, match="the engine is down"):
            memo.search(["broken"], 3)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_bug_of_the_engine_is_no_failed_search(elsewhere: bool) -> None:
    engine = Engine(elsewhere)
    with (
        pytest.raises(ZeroDivisionError),
        closing(Lookahead(CachedRetriever(engine), 3)) as lookahead,
    ):
        lookahead.ask(["bug"])
        lookahead.wait()


def test_whoever_leaves_early_does_not_wait() -> None:
    engine = Engine(elsewhere=True)
    engine.gate.clear()
    with (
        pytest.raises(KeyboardInterrupt),
        closing(Lookahead(CachedRetriever(engine), 3)) as lookahead,
    ):
        lookahead.ask(["a"])
        assert engine.begun.wait(PATIENCE_S)
        lookahead.ask(["b"])
        raise KeyboardInterrupt
    engine.gate.set()
    (thread,) = engine.threads
    thread.join(PATIENCE_S)
    assert engine.calls == [["a"]]
