"""A memo in front of a search engine, and prefetch: one batch search for many lone askers."""

import threading
from collections import OrderedDict
from collections.abc import Sequence

from .errors import InputError, RetrievalError
from .ranking import check_k
from .types import Hit, Retriever


class CachedRetriever:
    """A Retriever that remembers answers, and drops the least recently used ones.

    Environments step one at a time, engines like batches: whoever steps many environments calls
    `prefetch` with all their queries first, and each `search` then finds its answer here.

    Threads may share it as far as they may share the engine, which is called outside the lock:
    two threads that miss the same query at once both search for it.

    Attributes:
        elsewhere: Whether the engine works in another process (`Retriever`).
        hits: Queries that `search` answered without the engine, repeats within a call included.
        misses: Queries that the engine was asked, by `search` or `prefetch`.
        last_error: How the engine failed last; None if it never has.
    """

    def __init__(self, retriever: Retriever, max_entries: int = 100_000) -> None:
        """Start with an empty memo.

        Args:
            retriever: The engine.
            max_entries: The most answers kept, one per (query, k).

        Raises:
            InputError: max_entries < 1.
        """
        if max_entries < 1:
            raise InputError(f"max_entries is {max_entries}: keep at least 1 answer")
        self._retriever = retriever
        self.elsewhere: bool = getattr(retriever, "elsewhere", False)
        self._max_entries = max_entries
        self._memo: OrderedDict[tuple[str, int], tuple[Hit, ...]] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0
        self.last_error: str | None = None

    def __reduce__(self) -> tuple[type["CachedRetriever"], tuple[Retriever, int]]:
        # A lock can be neither pickled nor copied; a copy starts with an empty memo.
        return CachedRetriever, (self._retriever, self._max_entries)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`; unknown queries go to the engine in one batch.

        Raises:
            RetrievalError: The engine failed; nothing of the batch is remembered.
            InputError: k < 1.
        """
        known, found = self._answers(queries, k)
        with self._lock:
            self.hits += len(queries) - len(found)
        answers = known | found
        return [list(answers[query]) for query in queries]

    def prefetch(self, queries: Sequence[str], k: int) -> None:
        """Search, in one batch, for those of the queries that the memo does not hold.

        Raises:
            RetrievalError: The engine failed; nothing of the batch is remembered.
            InputError: k < 1.
        """
        self._answers(queries, k)

    def _answers(
        self, queries: Sequence[str], k: int
    ) -> tuple[dict[str, tuple[Hit, ...]], dict[str, tuple[Hit, ...]]]:
        """(remembered, searched for just now); together one answer for each distinct query.

        Both are returned, not left in the memo, which may be too small to hold them.
        """
        check_k(k)
        distinct = dict.fromkeys(queries)
        with self._lock:
            known = {query: self._memo[query, k] for query in distinct if (query, k) in self._memo}
            for query in known:
                self._memo.move_to_end((query, k))
        missing = [query for query in distinct if query not in known]
        if not missing:
            return known, {}
        try:
            found = dict(zip(missing, self._ask(missing, k), strict=True))
        except RetrievalError as error:
            self.last_error = str(error)
            raise
        with self._lock:
            self.misses += len(missing)
            for query, hits in found.items():
                self._memo[query, k] = hits
                self._memo.move_to_end((query, k))
            while len(self._memo) > self._max_entries:
                self._memo.popitem(last=False)
        return known, found

    def _ask(self, queries: list[str], k: int) -> list[tuple[Hit, ...]]:
        """One batch search by the engine.

        A time-out, a dead server, a failing disk (all OSError) is a RetrievalError even where the
        engine forgot to say so. Any other exception is a bug and must not pass for one.
        """
        try:
            answers = self._retriever.search(queries, k)
        except OSError as error:
            raise RetrievalError(f"the search engine failed: {error!r}") from error
        if len(answers) != len(queries):
            raise RetrievalError(
                f"the search engine gave {len(answers)} answers to {len(queries)} queries"
            )
        return [tuple(hits) for hits in answers]
