"""What is done with a request: read it in its dialect, search, write the answer."""

import asyncio
import importlib.metadata
import json
import platform
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from fastapi import Request, Response

from ..errors import InputError, RetrievalError
from . import page
from .batcher import Batcher, QueueFullError
from .dialects import DIALECTS, PYSERINI, SEARXNG, Dialect, choose_retrieve
from .fields import Fields, Refused, read_object
from .limits import Limits
from .metrics import Metrics
from .served import Served

_RETRY_AFTER_S = 1
_LIBRARIES = ("fastapi", "uvicorn")


class Service:
    """The indexes, each with its queue, and what is done with a request."""

    def __init__(self, served: Sequence[Served], limits: Limits, metrics: Metrics) -> None:
        """Start a queue for each.

        Args:
            served: At least one; the first is the default.
            limits: Of each index.
            metrics: Told of everything.
        """
        self.limits, self.metrics, self.default = limits, metrics, served[0]
        self._served = {one.name: one for one in served}
        self._batchers: dict[str, Batcher] = {}
        for one in served:
            batcher = Batcher(one.retriever, limits, metrics.search(one.name))
            self._batchers[one.name] = batcher
            metrics.index(one, batcher)

    def close(self) -> None:
        """Take no more requests."""
        for batcher in self._batchers.values():
            batcher.close()

    async def retrieve(self, request: Request) -> Response:
        """Search-R1, verl-agent, RAGEN: the body says which."""
        values = await self._body(request)
        return await self._answer(request, choose_retrieve(values), values)

    def post(self, dialect: Dialect) -> Callable[[Request], Awaitable[Response]]:
        """The route of a dialect whose fields come as a JSON body."""

        async def handle(request: Request) -> Response:
            return await self._answer(request, dialect, await self._body(request))

        return handle

    async def pyserini(self, request: Request) -> Response:
        """`/v1/{index}/search`."""
        return await self._answer(request, PYSERINI, request.query_params, in_url=True)

    async def home(self, request: Request) -> Response:
        """SearXNG's clients get JSON, people the page."""
        if request.query_params.get("format") == "json":
            return await self._answer(request, SEARXNG, request.query_params, in_url=True)
        return Response(page.HTML, media_type="text/html", headers=page.HEADERS)

    async def health(self, request: Request) -> Response:
        """Alive; it says nothing about the engine."""
        return as_json({"status": "healthy", "corpus_size": self._index(request).passages})

    async def info(self, request: Request) -> Response:
        """What is served here."""
        versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
        limits = {name: getattr(self.limits, name) for name in Limits.__dataclass_fields__}
        about = {
            **self._index(request).info(),
            "indexes": [one.info() for one in self._served.values()],
            "dialects": {dialect.name: dialect.request for dialect in DIALECTS},
            "limits": limits,
            "server_versions": {"python": platform.python_version(), **versions},
        }
        return as_json(about)

    async def prometheus(self, request: Request) -> Response:
        """The counters."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def _answer(
        self,
        request: Request,
        dialect: Dialect,
        values: Mapping[str, object],
        in_url: bool = False,
    ) -> Response:
        """Read, search, write.

        Raises:
            Refused: Whatever is wrong.
        """
        request.state.dialect = dialect.name
        index = self._index(request)
        fields = Fields(values, self.limits, in_url)
        ask = dialect.read(fields, self.limits.default_k)
        if not in_url:
            fields.no_others()
        began = time.perf_counter()
        try:
            answers = await self._batchers[index.name].search(ask.queries, ask.k)
        except QueueFullError:
            raise Refused(503, "too many queries wait: ask again soon", _RETRY_AFTER_S) from None
        except TimeoutError:
            raise Refused(504, f"no answer within {self.limits.timeout_s:g} s") from None
        except InputError as error:
            raise Refused(400, _line(error)) from None
        except RetrievalError as error:
            raise Refused(502, f"the search engine failed: {_line(error)}") from None
        milliseconds = (time.perf_counter() - began) * 1000
        try:
            response = as_json(dialect.write(ask, answers, index.name))
        except ValueError:
            raise Refused(502, "the search engine failed: a score is not a number") from None
        response.headers["Server-Timing"] = f"search;dur={milliseconds:.3f}"
        return response

    def _index(self, request: Request) -> Served:
        """The index that a path or `?index=` names, else the first."""
        name = request.path_params.get("index") or request.query_params.get("index")
        index = self.default if name is None else self._served.get(name)
        if index is None:
            known = ", ".join(map(ascii, self._served))
            raise Refused(404, f"no index {str(name)[:50]!a} here; there is {known}")
        request.state.fingerprint = index.fingerprint
        return index

    async def _body(self, request: Request) -> dict[str, object]:
        """The JSON object sent; never more than the limit of it is kept in memory."""
        length = request.headers.get("content-length", "")
        if length.isdecimal():
            self._check_length(int(length[:20]))
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                async for chunk in request.stream():
                    body += chunk
                    self._check_length(len(body))
        except TimeoutError:
            raise Refused(408, f"no whole request in {self.limits.timeout_s:g} s") from None
        return read_object(bytes(body))

    def _check_length(self, length: int) -> None:
        most = self.limits.max_body_bytes
        if length > most:
            raise Refused(413, f"the request is too long: send at most {most} bytes")


def as_json(value: Any, status: int = 200) -> Response:
    """A response with a JSON body.

    Raises:
        ValueError: A number is none.
    """
    # Escaped, because a query that is sent back may hold a lone surrogate, which UTF-8 cannot.
    body = json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    return Response(body, status_code=status, media_type="application/json")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
