"""What `retrieval.serve` is compared with: an endpoint around the same index, and nothing else.

    python -m benchmarks.plain_server --index indexes/x --shape async

FastAPI as its tutorial shows it and as Search-R1's server uses it: the body is a pydantic model,
the endpoint calls the index, request by request. `--shape async` calls it on the event loop,
`--shape threads` is a plain `def`, which FastAPI runs in its thread pool, as Search-R1's is.
"""

import argparse
import socket
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from retrieval.index import open_index
from retrieval.server.dialects import contents
from retrieval.types import Retriever


class Query(BaseModel):
    """Search-R1's request."""

    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


def create_app(retriever: Retriever, shape: str) -> FastAPI:
    """The application, with `shape` "async" or "threads"."""
    app = FastAPI()

    def answer(query: Query) -> dict[str, Any]:
        return {
            "result": [
                [
                    {
                        "document": {"id": hit.passage.id, "contents": contents(hit.passage)},
                        "score": hit.score,
                    }
                    for hit in hits
                ]
                for hits in retriever.search(query.queries, query.topk or 3)
            ]
        }

    if shape == "threads":
        app.post("/retrieve")(answer)
        return app

    @app.post("/retrieve")
    async def retrieve(query: Query) -> dict[str, Any]:
        return answer(query)

    return app


class _Server(uvicorn.Server):
    """Prints its URL when it is ready, as `retrieval.serve` does."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets
        print(f"http://127.0.0.1:{sockets[0].getsockname()[1]}", flush=True)


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", required=True, help="index folder")
    parser.add_argument("--shape", choices=("async", "threads"), required=True)
    args = parser.parse_args()
    app = create_app(open_index(Path(args.index)).retriever, args.shape)
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_keep_alive=75)
        _Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
