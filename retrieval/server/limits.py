"""What one server takes on, and how long it works on it."""

from dataclasses import dataclass, fields

from ..errors import InputError

_LEAST = {"batch_wait_ms": 0.0, "timeout_s": 0.001}


@dataclass(frozen=True, slots=True)
class Limits:
    """Settings of a server.

    Attributes:
        default_k: Passages per query where a request names no number and its dialect has none.
        max_k: The most passages per query.
        max_queries: The most queries per request.
        max_query_chars: The most characters per query.
        max_body_bytes: The longest request.
        max_queue: Queries that may wait, of all requests together; what comes on top is answered
            503 with Retry-After.
        max_batch: Queries per call of the engine; a request is never divided.
        batch_wait_ms: How long a batch waits for as many requests as the last one held.
        timeout_s: How long a request may take from its last byte on; then it is answered 504.
    """

    default_k: int = 3
    max_k: int = 1000
    max_queries: int = 1024
    max_query_chars: int = 131_072
    max_body_bytes: int = 16_777_216
    max_queue: int = 4096
    max_batch: int = 64
    batch_wait_ms: float = 2.0
    timeout_s: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = _LEAST.get(field.name, 1)
            if not least <= value < float("inf"):
                raise InputError(f"{field.name} is {value}: give at least {least:g}")
        if self.default_k > self.max_k:
            raise InputError(
                f"default_k is {self.default_k}: it must not exceed max_k, {self.max_k}"
            )
