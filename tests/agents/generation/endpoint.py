"""A chat completions server in this process, over real HTTP, that answers as a test wants.

Real servers do not fail on demand; this one speaks their protocol and does.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

# (the request's body, how often it was sent before) -> the answer.
Answer = Callable[[dict[str, Any], int], Response]


def completion(
    content: Any, reason: str = "stop", tokens: int | None = 3, **choice: Any
) -> Response:
    """An answer in order; `choice` are fields that a server adds."""
    body: dict[str, Any] = {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": reason,
                **choice,
            }
        ],
    }
    if tokens is not None:
        body["usage"] = {
            "prompt_tokens": 9,
            "completion_tokens": tokens,
            "total_tokens": 9 + tokens,
        }
    return JSONResponse(body)


def failure(status: int, message: str = "injected", **fields: Any) -> Response:
    """A refusal in OpenAI's form, to be repeated at once."""
    error = {"message": message, "type": "error", "code": None, **fields}
    return JSONResponse({"error": error}, status, {"retry-after-ms": "1"})


def raw(text: str, kind: str = "application/json", status: int = 200) -> Response:
    """Any body."""
    return Response(text, status, media_type=kind)


class Endpoint:
    """What the server does, and what it was asked.

    Attributes:
        answer: Set by each test.
        models: Ids that it lists.
        delay_s: Before every answer.
        bodies: Of all requests, in order of arrival.
        keys: The Authorization header of each.
        busiest: The most requests under way at once.
        port: Where it listens.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.reset()

    def reset(self) -> None:
        self.answer: Answer = lambda body, before: completion(body["messages"][-1]["content"])
        self.models: Any = ["m"]
        self.delay_s = 0.0
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.busiest = self._busy = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/v1/chat/completions")
        async def chat(request: Request) -> Response:
            body = await request.json()
            before = self.bodies.count(body)
            self.bodies.append(body)
            self.keys.append(request.headers.get("authorization", ""))
            self._busy += 1
            self.busiest = max(self.busiest, self._busy)
            await asyncio.sleep(self.delay_s)
            self._busy -= 1
            return self.answer(body, before)

        @app.get("/v1/models")
        async def models() -> Response:
            if isinstance(self.models, Response):
                return self.models
            listed = [
                {"id": i, "object": "model", "created": 0, "owned_by": "us"} for i in self.models
            ]
            return JSONResponse({"object": "list", "data": listed})

        return app


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@contextmanager
def listening(endpoint: Endpoint) -> Iterator[None]:
    """The endpoint's server runs."""
    config = uvicorn.Config(
        endpoint.app(), host="127.0.0.1", port=endpoint.port, log_level="error", lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield
    finally:
        server.should_exit = server.force_exit = True
        thread.join()
