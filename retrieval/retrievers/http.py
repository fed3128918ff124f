"""A search server, or several replicas of one: ours, or any that speaks Search-R1's dialect.

    python -m retrieval.serve --index indexes/x --port 8000
    python eval.py ... --retriever.name http --retriever.urls '[http://127.0.0.1:8000]'

All replicas must serve the same corpus. Ours say which on every answer; a replica that changes it
is not listened to any more. Search-R1's own server does not say: the fingerprint is then "unknown".

Nothing in an answer is trusted. An answer of ours must be exactly what `Retriever.search` owes;
other servers break ties as they like and may repeat a passage, so theirs are put in order first.
A failed attempt is repeated on another replica; a `RetrievalError` says that all attempts failed.
"""

import json
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ..corpus import Corpus
from ..errors import InputError, RetrievalError
from ..ranking import check_k
from ..replicas import Patience, ReplicaError, Replicas, Reply, check_url
from ..replies import read_json, read_native, read_search_r1
from ..types import Hit

NEEDS_CORPUS = False

UNKNOWN = "unknown"
_DIALECTS = ("native", "search_r1")
_FINGERPRINT_HEADER = "X-Corpus-Fingerprint"
_POLL_S = 0.25
_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Config:
    """Settings.

    Attributes:
        urls: Of the replicas, such as http://127.0.0.1:8000; at least one.
        dialect: "native", our server's own, exact; or "search_r1".
        index: Which of a server's indexes; empty for its first. Only with "native".
        batch: The most queries per request, at least 1; larger batches are sent in parts.
        connect_s: Seconds for a connection.
        read_s: Seconds for an answer's next bytes; at least what the server may take.
        total_s: Seconds for one request, all attempts and pauses together.
        attempts: Of one request, on all replicas together, at least 1.
        start_s: Seconds to wait, at the beginning, for the first replica to be there.
        max_bytes: The longest answer.
    """

    urls: tuple[str, ...] = ()
    dialect: str = "native"
    index: str = ""
    batch: int = 64
    connect_s: float = 3.0
    read_s: float = 35.0
    total_s: float = 120.0
    attempts: int = 8
    start_s: float = 60.0
    max_bytes: int = 67_108_864

    def __post_init__(self) -> None:
        for url in self.urls:
            check_url(url)
        if self.dialect not in _DIALECTS:
            raise InputError(f"dialect is {self.dialect!r}; choose one of {', '.join(_DIALECTS)}")
        if self.index and self.dialect != "native":
            raise InputError("index goes with the dialect native: add it to the URL, or leave it")
        for name in ("batch", "attempts", "max_bytes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: give at least 1")
        for name in ("connect_s", "read_s", "total_s", "start_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"{name} is {getattr(self, name)}: give more than 0 seconds")


def build(config: Config, corpus: Corpus | None) -> "HttpRetriever":
    """Wait for the servers and ask which corpus they serve.

    Raises:
        InputError: No URL, replicas that differ, or a corpus that is not the one given.
        RetrievalError: No replica is there.
    """
    if not config.urls:
        raise InputError("retriever.urls is missing: give the URL of a server")
    return HttpRetriever(config, None if corpus is None else corpus.fingerprint)


@dataclass(frozen=True, slots=True)
class _About:
    """What a server says of itself; None is what it does not say."""

    fingerprint: str
    engine: str | None = None
    passages: int | None = None
    max_k: int | None = None


class HttpRetriever:
    """A Retriever; threads may share it. A copy, also in another process, asks the servers anew.

    Attributes:
        elsewhere: True.
        fingerprint: Of the corpus that is searched, or "unknown".
    """

    elsewhere = True

    def __init__(self, config: Config, expected: str | None) -> None:
        self._config, self._expected = config, expected
        patience = Patience(
            config.connect_s, config.read_s, config.total_s, config.attempts, config.max_bytes
        )
        self._replicas = Replicas(config.urls, patience)
        self._native = config.dialect == "native"
        self._suffix = f"?index={quote(config.index, safe='')}" if config.index else ""
        self._about = self._greet()
        self.fingerprint = self._about.fingerprint
        if self.fingerprint == UNKNOWN:
            warnings.warn(
                f"{config.urls[0]} does not say which corpus it serves: results cannot be checked "
                "against one",
                stacklevel=3,
            )
        elif expected is not None and expected != self.fingerprint:
            raise InputError(
                f"{config.urls[0]}: serves another corpus ({self.fingerprint[:19]}..., the one "
                f"given is {expected[:19]}...); give the corpus that is served, or none"
            )

    def __reduce__(self) -> tuple[type["HttpRetriever"], tuple[Config, str | None]]:
        return HttpRetriever, (self._config, self._expected)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`.

        Raises:
            RetrievalError: No attempt worked, or the server refuses a query.
            InputError: k < 1, or more than the server gives.
        """
        check_k(k)
        k = self._within(k)
        size = self._config.batch
        parts = [list(queries[start : start + size]) for start in range(0, len(queries), size)]
        if len(parts) < 2:
            return self._search(parts[0], k) if parts else []
        pool = ThreadPoolExecutor(min(len(parts), 2 * len(self._config.urls)))
        try:
            found = list(pool.map(lambda part: self._search(part, k), parts))
        finally:
            pool.shutdown(cancel_futures=True)
        return [hits for answers in found for hits in answers]

    def _within(self, k: int) -> int:
        """The k to ask for: no more than there are passages, whatever the limit of the server."""
        if self._about.passages is not None:
            k = min(k, self._about.passages)
        if self._about.max_k is not None and k > self._about.max_k:
            raise InputError(
                f"k is {k}: the server gives at most {self._about.max_k}; "
                "ask for less, or start it with a larger --limits.max_k"
            )
        return k

    def _search(self, queries: list[str], k: int) -> list[list[Hit]]:
        """One request."""
        if self._native:
            path = "/api/search"
            fields: dict[str, Any] = {"queries": queries, "k": k}
        else:
            path = "/retrieve"
            fields = {"queries": queries, "topk": k, "return_scores": True}
        read = read_native if self._native else read_search_r1

        def check(reply: Reply) -> list[list[Hit]]:
            said = reply.headers.get(_FINGERPRINT_HEADER, UNKNOWN)
            if said != self.fingerprint:
                raise ReplicaError(f"serves another corpus now ({said[:19]})", _MINUTE_S)
            return read(reply.body, len(queries), k)

        return self._replicas.ask(path + self._suffix, json.dumps(fields).encode("ascii"), check)

    def _greet(self) -> _About:
        """What the servers say of themselves, once one of them is there."""
        until = time.monotonic() + self._config.start_s
        found: dict[str, _About] = {}
        missing: dict[str, str] = dict.fromkeys(self._replicas.urls, "")
        while missing:
            for url in list(missing):
                try:
                    found[url] = self._ask_about(url, until)
                    del missing[url]
                except ReplicaError as error:
                    missing[url] = str(error)
            if found or time.monotonic() + _POLL_S > until:
                break
            time.sleep(_POLL_S)
        if not found:
            url, reason = next(iter(missing.items()))
            raise RetrievalError(f"no server within {self._config.start_s:g} s: {url}: {reason}")
        for url, reason in missing.items():
            warnings.warn(f"{url} is not there, going on without it: {reason}", stacklevel=4)
        first_url, first = next(iter(found.items()))
        for url, about in found.items():
            if (about.fingerprint, about.engine) != (first.fingerprint, first.engine):
                raise InputError(
                    f"{url} and {first_url} differ: {about.engine} over {about.fingerprint[:19]}, "
                    f"{first.engine} over {first.fingerprint[:19]}; replicas must be alike"
                )
        return first

    def _ask_about(self, url: str, until: float) -> _About:
        """What one server says of itself.

        Raises:
            ReplicaError: It is not there.
            InputError: It is no such server.
        """
        try:
            if not self._native:
                probe = b'{"queries": [], "topk": 1, "return_scores": true}'
                reply = self._replicas.send(url, "/retrieve", probe, until)
                return _About(reply.headers.get(_FINGERPRINT_HEADER, UNKNOWN))
            reply = self._replicas.send(url, f"/info{self._suffix}", None, until)
        except RetrievalError as error:
            other = "search_r1" if self._native else "native"
            raise InputError(f"{error}; is it a server of the dialect {other}?") from error
        info = read_json(reply.body)
        try:
            max_k = info["limits"]["max_k"]
            about = _About(info["fingerprint"], info["engine"], info["passages"], max_k)
        except (KeyError, TypeError):
            raise InputError(f"{url}/info: not the answer of our server; give its URL") from None
        kinds = (str, str, int, int)
        if tuple(type(getattr(about, name)) for name in _About.__slots__) != kinds:
            raise InputError(f"{url}/info: not the answer of our server; give its URL")
        return about
