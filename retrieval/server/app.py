"""The application: routes, errors, headers.

Every answer, also to an error, carries `X-Corpus-Fingerprint`. `?index=NAME` chooses the index on
any route; without it the first one answers. Bodies are read as JSON whatever their content type.
"""

import time
from collections.abc import AsyncIterator, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .dialects import NATIVE, RECALL, RECALL_BATCH
from .fields import Refused
from .limits import Limits
from .metrics import Metrics
from .served import Served
from .service import Service, as_json

FINGERPRINT_HEADER = "X-Corpus-Fingerprint"


class Observed:
    """Around the whole application: headers that every answer has, and the counters."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        began = time.perf_counter()

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                fingerprint = state.get("fingerprint", self._service.default.fingerprint)
                message["headers"] = [
                    *message["headers"],
                    (FINGERPRINT_HEADER.lower().encode(), fingerprint.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
                seconds = time.perf_counter() - began
                self._service.metrics.request(
                    state.get("dialect", "none"), message["status"], seconds
                )
            await send(message)

        await self._app(scope, receive, send_more)


def create_app(served: Sequence[Served], limits: Limits) -> ASGIApp:
    """The ASGI application.

    Args:
        served: At least one index; the first is the default.
        limits: Of each index.
    """
    service = Service(served, limits, Metrics())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    # The generated pages load their scripts from elsewhere; /info says what can be asked.
    app = FastAPI(lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None)
    for paths, methods, handle in (
        (("/", "/retrieve"), ["POST"], service.retrieve),
        (("/search",), ["POST"], service.post(RECALL)),
        (("/batch_search",), ["POST"], service.post(RECALL_BATCH)),
        (("/api/search",), ["POST"], service.post(NATIVE)),
        (("/v1/{index:path}/search",), ["GET"], service.pyserini),
        (("/", "/search"), ["GET"], service.home),
        (("/health",), ["GET"], service.health),
        (("/info",), ["GET"], service.info),
        (("/metrics",), ["GET"], service.prometheus),
    ):
        for path in paths:
            app.add_route(path, handle, methods=methods)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(Exception, _bug)
    return Observed(app, service)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    response = as_json({"error": error.reason}, error.status)
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    return response


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path[:100]}"
    response = as_json({"error": f"{what}: {error.detail}; see GET /info"}, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def _bug(request: Request, error: Exception) -> Response:
    return as_json({"error": "a defect of the server; its log has the details"}, 500)
