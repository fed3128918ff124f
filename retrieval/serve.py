"""Serve indexes over HTTP, in the dialects of Search-R1 and others (`retrieval.server.dialects`).

    python -m retrieval.serve --index indexes/wiki --port 8000
    python -m retrieval.serve --index indexes/wiki-bm25 --index indexes/wiki-dense
    python -m retrieval.serve --retriever bm25s --corpus C.jsonl.gz

Several indexes stand side by side on the page at `/`; the first answers requests that name none.
One line is printed when the server is ready. SIGTERM ends it after the requests it is working on.
"""

import argparse
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

import uvicorn
from jsonargparse import ArgumentParser

from .errors import InputError, RetrievalError
from .parser_errors import explain
from .server.app import create_app
from .server.limits import Limits
from .server.served import open_served

_BACKLOG = 2048
# Seconds that an idle connection stays open; longer than pauses of a client that trains.
_KEEP_ALIVE_S = 75


def main(argv: Sequence[str] | None = None) -> int:
    """The command; 2 for usage errors."""
    try:
        return _main(list(sys.argv[1:] if argv is None else argv))
    except (InputError, RetrievalError) as error:
        print(f"serve: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _main(argv: list[str]) -> int:
    args, limits = _parse(argv)
    # Before the index is loaded, which may take minutes; connections are refused until it is.
    with _bind(args.host, args.port) as listener:
        served = open_served(args.index or [], args.retriever, args.corpus)
        config = uvicorn.Config(
            create_app(served, limits),
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=int(limits.timeout_s) + 2,
        )
        shown = "; ".join(f"{one.name}: {one.engine}, {one.passages:,} passages" for one in served)
        server = _Server(config, f"{_url(listener)}  {shown}")
        # uvicorn raises the signal that ended it once more: being told to stop is no failure.
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        try:
            listener.listen(_BACKLOG)
        except OSError as error:
            raise _taken(args.host, args.port, error) from error
        server.run(sockets=[listener])
    return 0


class _Server(uvicorn.Server):
    """Says one line when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: str) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(self._ready, flush=True)


def _parse(argv: list[str]) -> tuple[Any, Limits]:
    parser = ArgumentParser(
        prog="python -m retrieval.serve", description=__doc__, exit_on_error=False
    )
    parser.add_argument("--index", nargs="+", action="extend", help="Index folders to serve.")
    parser.add_argument("--retriever", help="Index --corpus in memory, with this engine.")
    parser.add_argument("--corpus", help="A .jsonl, .jsonl.gz or .parquet file.")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 for all interfaces.")
    parser.add_argument("--port", type=int, default=8000, help="0 for any that is free.")
    parser.add_class_arguments(Limits, "limits")
    try:
        args = parser.parse_args(argv)
        limits = parser.instantiate(args).limits
    except (argparse.ArgumentError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        keys = {action.dest for action in parser._actions}
        raise InputError(explain(error, keys, {})) from error
    return args, limits


def _bind(host: str, port: int) -> socket.socket:
    """A socket that has the port and does not listen yet."""
    if not 0 <= port <= 65535:
        raise InputError(f"port is {port}: give 0 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"host {host!r}: no such address ({error.strerror})") from error
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _taken(host, port, error) from error
    return listener


def _taken(host: str, port: int, error: OSError) -> InputError:
    return InputError(f"{host} port {port}: {error.strerror}; give another --port or --host")


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


if __name__ == "__main__":
    sys.exit(main())
