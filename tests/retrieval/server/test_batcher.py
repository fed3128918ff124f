"""Micro-batching: what is called together, and that requests cannot harm each other."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from retrieval.corpus import Corpus
from retrieval.errors import InputError, RetrievalError
from retrieval.server.batcher import Batcher, QueueFullError
from retrieval.server.limits import Limits
from retrieval.types import Hit, Passage
from tests.retrieval.odd_engine import OddEngine

CORPUS = Corpus.of(Passage(str(number), "", f"text {number}") for number in range(5))


class Gated:
    """An engine whose next calls wait until the gate is opened."""

    def __init__(self) -> None:
        self.engine = OddEngine(CORPUS)
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.threads: set[str] = set()

    @property
    def calls(self) -> list[tuple[list[str], int]]:
        return self.engine.calls

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.threads.add(threading.current_thread().name)
        self.entered.set()
        assert self.gate.wait(30)
        return self.engine.search(queries, k)


async def behind(engine: Gated, batcher: Batcher, *asks: tuple[list[str], int]) -> list[object]:
    """What the asks are answered that arrive, in this order, while the engine is at work."""
    first = asyncio.create_task(batcher.search(["first"], 1))
    await asyncio.to_thread(engine.entered.wait, 30)
    tasks = [asyncio.create_task(batcher.search(queries, k)) for queries, k in asks]
    await asyncio.sleep(0)  # all of them have queued up
    engine.gate.set()
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)


def play(*asks: tuple[list[str], int], **limits: object) -> tuple[Gated, list[object]]:
    async def main() -> tuple[Gated, list[object]]:
        engine = Gated()
        batcher = Batcher(engine, Limits(**limits), lambda queries, seconds: None)
        try:
            return engine, await behind(engine, batcher, *asks)
        finally:
            batcher.close()

    return asyncio.run(main())


def ids(answers: object) -> list[list[str]]:
    return [[hit.passage.id for hit in hits] for hits in answers]


def test_what_arrives_while_the_engine_works_is_one_call() -> None:
    engine, answers = play((["a"], 2), (["b", "c"], 2), (["d"], 2))
    assert engine.calls == [(["first"], 1), (["a", "b", "c", "d"], 2)]
    assert [ids(answer) for answer in answers] == [[["0", "1"]], [["0", "1"]] * 2, [["0", "1"]]]


def test_the_engine_is_called_beside_the_event_loop_by_one_thread() -> None:
    engine, _ = play((["a"], 2), (["b"], 3))
    assert len(engine.threads) == 1 and threading.main_thread().name not in engine.threads


def test_a_call_has_one_k() -> None:
    """An approximate engine's best 2 of 5 may differ from its best 2."""
    engine, answers = play((["a"], 2), (["b"], 5), (["c"], 2))
    assert engine.calls[1:] == [(["a", "c"], 2), (["b"], 5)]
    assert [len(answer[0]) for answer in answers] == [2, 5, 2]


def test_a_query_of_several_clients_is_searched_for_once() -> None:
    engine, answers = play((["a", "b"], 1), (["a"], 1), (["b", "a", "b"], 1))
    assert engine.calls[1:] == [(["a", "b"], 1)]
    assert [len(answer) for answer in answers] == [2, 1, 3]


def test_a_batch_is_bounded_and_requests_are_not_divided() -> None:
    engine, _ = play((["a", "b"], 1), (["c", "d"], 1), (["e"], 1), (["f"] * 9, 1), max_batch=4)
    assert [queries for queries, _ in engine.calls[1:]] == [["a", "b", "c", "d"], ["e"], ["f"]]


@pytest.mark.parametrize(
    ("bad", "error", "reason"),
    [
        ("fail", RetrievalError, "the disk"),
        ("bug", RetrievalError, "KeyError: 'nobody foresaw this'"),
        ("refuse", InputError, "not such a query"),
        ("few", RetrievalError, "0 answers to 1 queries"),
    ],
)
def test_a_request_that_fails_harms_no_other_of_its_batch(bad, error, reason, capfd) -> None:
    _, answers = play((["a"], 2), (["b", bad], 2) if bad != "few" else ([bad], 2), (["c"], 2))
    assert isinstance(answers[1], error) and reason in str(answers[1])
    assert ids(answers[0]) == ids(answers[2]) == [["0", "1"]]
    # The operator is shown what nobody foresaw.
    assert ("Traceback" in capfd.readouterr().err) == (bad == "bug")


def test_a_full_queue_takes_no_more_and_an_empty_one_takes_anything() -> None:
    _, answers = play((["a", "b", "c"], 1), (["d"], 1), (["e"], 1), max_queue=3)
    assert isinstance(answers[1], QueueFullError) and isinstance(answers[2], QueueFullError)
    assert len(answers[0]) == 3
    _, answers = play((["a"] * 50, 1), max_queue=3)
    assert len(answers[0]) == 50


def test_a_request_whose_time_is_over_is_not_searched_for_any_more() -> None:
    async def main() -> list[tuple[list[str], int]]:
        engine = Gated()
        batcher = Batcher(engine, Limits(timeout_s=0.2), lambda queries, seconds: None)
        late = [asyncio.create_task(batcher.search([query], 1)) for query in ("first", "late")]
        for task in late:
            with pytest.raises(TimeoutError):
                await task
        engine.gate.set()
        assert ids(await batcher.search(["after"], 1)) == [["0"]]
        batcher.close()
        return engine.calls

    # Whether "late" came into the first call or behind it is up to the threads.
    calls = [query for queries, _ in asyncio.run(main()) for query in queries]
    assert calls in (["first", "after"], ["first", "late", "after"])


def test_closing_answers_what_waits_and_takes_nothing_new() -> None:
    async def main() -> None:
        engine = Gated()
        batcher = Batcher(engine, Limits(), lambda queries, seconds: None)
        waiting = [asyncio.create_task(batcher.search([query], 1)) for query in "abc"]
        await asyncio.sleep(0)
        batcher.close()
        with pytest.raises(QueueFullError):
            await batcher.search(["d"], 1)
        engine.gate.set()
        assert [ids(answer) for answer in await asyncio.gather(*waiting)] == [[["0"]]] * 3

    asyncio.run(main())


def test_no_query_needs_no_engine() -> None:
    async def main() -> None:
        engine = Gated()
        batcher = Batcher(engine, Limits(), lambda queries, seconds: None)
        assert await batcher.search([], 3) == [] and not engine.calls
        batcher.close()

    asyncio.run(main())


def test_batches_are_recorded() -> None:
    async def main() -> list[int]:
        engine, sizes = Gated(), []
        batcher = Batcher(engine, Limits(), lambda queries, seconds: sizes.append(queries))
        await behind(engine, batcher, (["a"], 1), (["a", "b"], 1))
        batcher.close()
        return sizes

    assert asyncio.run(main()) == [1, 3]
