"""What Prometheus may ask a server."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from .batcher import Batcher
from .served import Served

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_QUERIES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """Counters of one server, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "retrieval_requests",
            "Requests answered, by dialect (none for other pages) and HTTP status.",
            ["dialect", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "retrieval_request_seconds",
            "From the first byte of a request to the first of its answer, by dialect.",
            ["dialect"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._search_seconds = Histogram(
            "retrieval_search_seconds",
            "Of one call of the engine, by index.",
            ["index"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._batch_queries = Histogram(
            "retrieval_batch_queries",
            "Queries in one call of the engine, by index.",
            ["index"],
            buckets=_QUERIES,
            registry=self._registry,
        )
        self._queued = Gauge(
            "retrieval_queued_queries",
            "Queries that wait, by index.",
            ["index"],
            registry=self._registry,
        )
        self._searching = Gauge(
            "retrieval_searching_queries",
            "Queries that the engine is at work on, by index.",
            ["index"],
            registry=self._registry,
        )
        self._passages = Gauge(
            "retrieval_passages",
            "Passages of an index.",
            ["index", "engine", "fingerprint"],
            registry=self._registry,
        )

    def request(self, dialect: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(dialect, status).inc()
        self._seconds.labels(dialect).observe(seconds)

    def search(self, index: str) -> Callable[[int, float], None]:
        """What is to be told (queries, seconds) of every call of this index's engine."""
        batch_queries = self._batch_queries.labels(index)
        seconds_of = self._search_seconds.labels(index)

        def record(queries: int, seconds: float) -> None:
            batch_queries.observe(queries)
            seconds_of.observe(seconds)

        return record

    def index(self, served: Served, batcher: Batcher) -> None:
        """An index is served, with this queue in front of it."""
        self._passages.labels(served.name, served.engine, served.fingerprint).set(served.passages)
        self._queued.labels(served.name).set_function(lambda: float(batcher.queued))
        self._searching.labels(served.name).set_function(lambda: float(batcher.searching))

    def text(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self._registry)
