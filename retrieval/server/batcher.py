"""Many requests, one call of the engine: micro-batching in a thread beside the event loop.

While the engine works, requests queue up, and the next call takes them all. A batch that is smaller
than the last one waits a little for the rest, because clients that were answered together ask again
together; a client that is alone is never kept waiting.
"""

import asyncio
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import InputError, RetrievalError
from ..types import Hit, Retriever
from .limits import Limits

Answers = list[list[Hit]]


class QueueFullError(Exception):
    """More queries wait than the server may keep waiting."""


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """One request that waits. The event loop owns `answer`; any thread may ask if it is done."""

    queries: list[str]
    k: int
    answer: "asyncio.Future[Answers]"


class Batcher:
    """The queue in front of one engine, and the one thread that calls it.

    So an engine needs no locks of its own. The thread is a daemon: an engine that hangs does not
    keep a stopped server alive.

    Attributes:
        queued: Queries that wait.
        searching: Queries that the engine has been given and not answered.
    """

    def __init__(
        self, retriever: Retriever, limits: Limits, record: Callable[[int, float], None]
    ) -> None:
        """Start the thread.

        Args:
            retriever: The engine.
            limits: Of the server.
            record: Told (queries, seconds) of every call.
        """
        self._retriever, self._limits, self._record = retriever, limits, record
        self._waiting: deque[_Request] = deque()
        self._changed = threading.Condition()
        self._last = 0  # requests in the last batch
        self._wanted = 1  # requests that the thread waits for
        self._closed = False
        self.queued = self.searching = 0
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    async def search(self, queries: list[str], k: int) -> Answers:
        """Answers to the queries of one request; on the event loop.

        Raises:
            QueueFullError: Too many wait, or the server stops.
            TimeoutError: The time of a request is over.
            RetrievalError: The engine failed.
            InputError: The engine refuses the request.
        """
        if not queries:
            return []
        request = _Request(queries, k, asyncio.get_running_loop().create_future())
        with self._changed:
            # A request of any size is taken where nothing else waits.
            if self._closed or (
                self.queued and self.queued + len(queries) > self._limits.max_queue
            ):
                raise QueueFullError
            self._waiting.append(request)
            self.queued += len(queries)
            # Not for every request: a thread that wakes for nothing takes time from the event loop.
            if self._enough():
                self._changed.notify()
        async with asyncio.timeout(self._limits.timeout_s):
            return await request.answer

    def close(self) -> None:
        """Take no more requests; those that wait are answered still."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _enough(self) -> bool:
        """Whether the thread need wait no longer."""
        many = len(self._waiting) >= self._wanted or self.queued >= self._limits.max_batch
        return many or self._closed

    def _run(self) -> None:
        while (batch := self._take()) is not None:
            # One call has one k: an approximate engine's best 3 need not lead its best 10.
            for k in dict.fromkeys(request.k for request in batch):
                self._answer([request for request in batch if request.k == k], k)

    def _take(self) -> list[_Request] | None:
        """The next batch, in order of arrival; None when closed and empty."""
        limits = self._limits
        with self._changed:
            self._wanted = 1
            self._changed.wait_for(self._enough)
            if not self._waiting:
                return None
            self._wanted = self._last
            self._changed.wait_for(self._enough, limits.batch_wait_ms / 1000)
            batch: list[_Request] = []
            room = limits.max_batch
            while self._waiting and (not batch or len(self._waiting[0].queries) <= room):
                request = self._waiting.popleft()
                self.queued -= len(request.queries)
                if not request.answer.done():  # else its time is over
                    batch.append(request)
                    room -= len(request.queries)
            self._last = len(batch)
        return batch

    def _answer(self, batch: list[_Request], k: int) -> None:
        """Search for a batch; when that fails, request by request, so that one harms no other."""
        try:
            answers = self._search([query for request in batch for query in request.queries], k)
        except Exception as error:
            if len(batch) > 1:
                for request in batch:
                    if not request.answer.done():
                        self._answer([request], k)
                return
            _deliver(batch, _explained(error))
            return
        _deliver(batch, answers)

    def _search(self, queries: list[str], k: int) -> Answers:
        """One call of the engine; a query that several clients sent is searched for once."""
        distinct = list(dict.fromkeys(queries))
        began, self.searching = time.perf_counter(), len(queries)
        try:
            found = self._retriever.search(distinct, k)
        finally:
            self.searching = 0
        self._record(len(queries), time.perf_counter() - began)
        if len(found) != len(distinct):
            raise RetrievalError(f"{len(found)} answers to {len(distinct)} queries")
        by_query = dict(zip(distinct, found, strict=True))
        return [by_query[query] for query in queries]


def _explained(error: Exception) -> Exception:
    """What the client is told; what nobody foresaw is shown to the operator too."""
    if isinstance(error, InputError | RetrievalError):
        return error
    if not isinstance(error, OSError):
        traceback.print_exception(error, file=sys.stderr)
    return RetrievalError(f"{type(error).__name__}: {error}")


def _deliver(batch: list[_Request], outcome: Answers | Exception) -> None:
    """Give each request its part of the answers, all at once; an error to each of them."""

    def settle() -> None:
        if isinstance(outcome, Exception):
            for request in batch:
                if not request.answer.done():
                    request.answer.set_exception(outcome)
            return
        answers = iter(outcome)
        for request in batch:
            part = [next(answers) for _ in request.queries]
            if not request.answer.done():
                request.answer.set_result(part)

    try:
        batch[0].answer.get_loop().call_soon_threadsafe(settle)
    except RuntimeError:  # the loop is closed: nobody waits any more
        return
