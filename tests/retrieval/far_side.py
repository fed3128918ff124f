"""A server for tests that answers as it is told: wrong, late, too much, or not at all.

It stands for what may be at the other end of a client: other people's servers, proxies, networks.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# (handler, path, body) -> None: sends the whole answer.
Script = Callable[[BaseHTTPRequestHandler, str, Any], None]


def send(
    handler: BaseHTTPRequestHandler,
    content: bytes,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> None:
    """One answer with its length."""
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(content)


def send_json(handler: BaseHTTPRequestHandler, value: Any, **headers: str) -> None:
    """One JSON answer."""
    send(
        handler,
        json.dumps(value).encode(),
        headers={n.replace("_", "-"): v for n, v in headers.items()},
    )


@contextmanager
def far_side(script: Script, port: int = 0) -> Iterator[str]:
    """The URL of a server that follows the script."""
    stopping = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        stopped = stopping

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            script(self, self.path, json.loads(self.rfile.read(length) or b"null"))

        do_GET = do_POST

        def log_message(self, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # the client hung up, as it should

    server = Server(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        stopping.set()
        server.shutdown()
        server.server_close()
