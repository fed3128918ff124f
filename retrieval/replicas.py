"""Replicas of one HTTP service: pooled connections, retries, fail-over, bounded time and size.

A replica that fails rests, longer each time it fails again, and the request goes to the next one.
How long is drawn from the system's randomness: it decides when something is asked, never what.
"""

import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlsplit

import urllib3

from .errors import InputError, RetrievalError

Checked = TypeVar("Checked")

_FIRST_REST_S, _LONGEST_REST_S = 0.25, 8.0
_CHUNK_BYTES = 1 << 16
# The request was all right and may be answered later, or elsewhere.
_PASSING = {408, 425, 429, 500, 502, 503, 504}
_JITTER = random.SystemRandom()


class ReplicaError(Exception):
    """An attempt failed; another may not.

    Attributes:
        rest_s: How long the replica asked to be left alone; None where it did not say.
    """

    def __init__(self, reason: str, rest_s: float | None = None) -> None:
        super().__init__(reason)
        self.rest_s = rest_s


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how often.

    Attributes:
        connect_s: For a connection.
        read_s: For the next bytes of an answer.
        total_s: For one `ask`, all attempts and pauses together.
        attempts: Of one `ask`, at least 1.
        max_bytes: The longest answer.
        connections: Kept open per replica.
    """

    connect_s: float
    read_s: float
    total_s: float
    attempts: int
    max_bytes: int
    connections: int = 64


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with status 200.

    Attributes:
        url: Of the replica.
        headers: Case-insensitive.
        body: Whole.
    """

    url: str
    headers: urllib3.HTTPHeaderDict
    body: bytes


@dataclass(slots=True)
class _Replica:
    url: str
    failures: int = 0  # in a row
    rests_until: float = 0.0  # monotonic
    lock: threading.Lock = field(default_factory=threading.Lock)

    def failed(self, rest_s: float | None) -> None:
        with self.lock:
            now = time.monotonic()
            if now >= self.rests_until:  # else another thread saw the same failure
                self.failures += 1
            if rest_s is None:
                rest_s = min(_LONGEST_REST_S, _FIRST_REST_S * 2 ** (self.failures - 1))
                rest_s *= _JITTER.uniform(0.5, 1.0)
            self.rests_until = max(self.rests_until, now + rest_s)

    def worked(self) -> None:
        with self.lock:
            self.failures, self.rests_until = 0, 0.0


class Replicas:
    """Threads may share it; so may forked processes, each of which opens its own connections."""

    def __init__(self, urls: Sequence[str], patience: Patience) -> None:
        """Open no connection yet.

        Args:
            urls: At least one, such as "http://10.0.0.7:8000".
            patience: Of every `ask`.

        Raises:
            InputError: A URL is none.
        """
        self._patience = patience
        self._replicas = [_Replica(check_url(url)) for url in urls]
        self._turns = itertools.count()
        self._opened: tuple[int, urllib3.PoolManager] | None = None

    @property
    def urls(self) -> list[str]:
        """Of the replicas, in order."""
        return [replica.url for replica in self._replicas]

    def ask(self, path: str, body: bytes, check: Callable[[Reply], Checked]) -> Checked:
        """POST to a replica, and to others until one gives an answer that passes the check.

        Args:
            path: Such as "/retrieve".
            body: JSON.
            check: Turns the answer into something, or raises ReplicaError.

        Raises:
            RetrievalError: No attempt worked, time is over, or the request itself is refused.
        """
        until = time.monotonic() + self._patience.total_s
        reason = "no time"
        for _ in range(self._patience.attempts):
            replica = self._rested(until)
            if replica is None:
                break
            try:
                checked = check(self.send(replica.url, path, body, until))
            except ReplicaError as error:
                reason = f"{replica.url}{path}: {error}"
                replica.failed(error.rest_s)
            else:
                replica.worked()
                return checked
        raise RetrievalError(f"no replica answered; the last failure: {reason}")

    def send(self, url: str, path: str, body: bytes | None, until: float) -> Reply:
        """One attempt at one replica: POST, or GET without a body.

        Args:
            url: Of the replica.
            path: Such as "/info".
            body: JSON, or None.
            until: When to give up, by the monotonic clock.

        Raises:
            ReplicaError: It failed in a way that may pass.
            RetrievalError: The replica refuses the request.
        """
        left = until - time.monotonic()
        if left <= 0:
            raise ReplicaError("no time left")
        try:
            response = self._pool().request(
                "GET" if body is None else "POST",
                f"{url}{path}",
                body=body,
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                timeout=urllib3.Timeout(
                    connect=min(self._patience.connect_s, left),
                    read=min(self._patience.read_s, left),
                ),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise ReplicaError(_cause(error)) from error
        try:
            content = self._content(response, until)
        except BaseException:
            response.close()  # what is left of the answer must not reach the next one
            raise
        response.release_conn()
        if response.status == 200:
            return Reply(url, response.headers, content)
        said = " ".join(content[:300].decode(errors="replace").split())
        if response.status in _PASSING:
            rest_s = _retry_after(response.headers.get("Retry-After"))
            raise ReplicaError(f"status {response.status}: {said}", rest_s)
        raise RetrievalError(f"{url}{path}: refused with status {response.status}: {said}")

    def _content(self, response: urllib3.BaseHTTPResponse, until: float) -> bytes:
        """The whole answer, as sent; a bit at a time, so that a slow sender gains nothing."""
        content = bytearray()
        most = self._patience.max_bytes
        try:
            while chunk := response.read1(_CHUNK_BYTES, decode_content=False):
                content += chunk
                if len(content) > most:
                    raise ReplicaError(f"the answer is longer than {most} bytes")
                if time.monotonic() > until:
                    raise ReplicaError("the answer took too long")
        except urllib3.exceptions.HTTPError as error:
            raise ReplicaError(_cause(error)) from error
        return bytes(content)

    def _rested(self, until: float) -> _Replica | None:
        """The next replica in turn that does not rest; waits for one, None where that is too long.

        A replica's turn comes after that of all others, so load spreads evenly.
        """
        first = next(self._turns)
        while True:
            now = time.monotonic()
            count = len(self._replicas)
            for place in range(first, first + count):
                replica = self._replicas[place % count]
                if replica.rests_until <= now:
                    return replica
            soonest = min(replica.rests_until for replica in self._replicas)
            if soonest >= until:
                return None
            time.sleep(max(0.0, soonest - now))

    def _pool(self) -> urllib3.PoolManager:
        """The connections of this process: a fork must not speak on its parent's."""
        if self._opened is None or self._opened[0] != os.getpid():
            pool = urllib3.PoolManager(
                num_pools=len(self._replicas), maxsize=self._patience.connections
            )
            self._opened = (os.getpid(), pool)
        return self._opened[1]


def check_url(url: str) -> str:
    """The URL of a server, without the path of a request.

    Raises:
        InputError: No http or https URL, or one with a query.
    """
    parts = urlsplit(url)
    try:
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment:
        raise InputError(f"{url!r} is no server's URL: give one such as http://127.0.0.1:8000")
    # Search-R1's own setting names the route too.
    return url.rstrip("/").removesuffix("/retrieve")


def _retry_after(value: str | None) -> float | None:
    """Seconds; a date, which needs clocks that agree, counts as nothing said."""
    if value is None or not value.strip().isdecimal():
        return None
    return min(float(value[:9]), 3600.0)


def _cause(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
