"""A turn's searches: all at once, or as soon as each is known while other turns are sampled."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from retrieval.cache import CachedRetriever
from retrieval.errors import RetrievalError


class Lookahead:
    """Lets the memo of a search engine know the answers before the environments ask.

    An engine that works elsewhere (`CachedRetriever.elsewhere`) is asked at once, in a thread; what
    comes in while it is busy is its next batch. Any other would only take the cores that sample:
    it is asked in one batch, by `wait`. A search that fails is left to the environments, each of
    which then meets its own failure. One thread uses it, and closes it.
    """

    def __init__(self, retriever: CachedRetriever, k: int) -> None:
        """Ask nothing yet.

        Args:
            retriever: The memo.
            k: Passages per query, as the environments ask.
        """
        self._retriever = retriever
        self._k = k
        self._lock = threading.Lock()
        self._queries: list[str] = []
        self._under_way: list[Future[None]] = []
        self._thread = ThreadPoolExecutor(1, "lookahead") if retriever.elsewhere else None

    def close(self) -> None:
        """Begin nothing more, and wait for nothing: after Ctrl-C nobody waits for a search."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def ask(self, queries: Sequence[str]) -> None:
        """Searches that environments will make; those of a call are never in different batches."""
        with self._lock:
            begins = bool(queries) and not self._queries
            self._queries += queries
        # Whoever takes queries takes all: with the first of them a search more is due.
        if begins and self._thread is not None:
            self._under_way.append(self._thread.submit(self._answer))

    def wait(self) -> None:
        """Return when everything asked has been answered, or has failed.

        Raises:
            Exception: A bug of the engine.
        """
        if self._thread is None:
            self._answer()
        under_way, self._under_way = self._under_way, []
        for search in under_way:
            search.result()

    def _answer(self) -> None:
        with self._lock:
            queries, self._queries = self._queries, []
        prefetch(self._retriever, queries, self._k)


def prefetch(retriever: CachedRetriever, queries: Sequence[str], k: int) -> None:
    """One batch search for all; if it fails, each environment meets the failure itself."""
    try:
        retriever.prefetch(queries, k)
    except RetrievalError:
        return
