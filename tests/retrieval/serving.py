"""Real servers for tests: `python -m retrieval.serve` in a process of its own, on a free port."""

import http.client
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CHECKOUT = Path(__file__).parents[2]
START_S = 120


@dataclass(frozen=True)
class Server:
    """One that runs.

    Attributes:
        url: Such as "http://127.0.0.1:41234".
        ready: The line it printed.
        process: For signals; its pid is the server's.
    """

    url: str
    ready: str
    process: subprocess.Popen[str]

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname, parts.port

    def ask(
        self, method: str, path: str, body: Any = None, timeout: float = 60
    ) -> tuple[int, dict[str, str], Any]:
        """(status, headers in lower case, JSON or text), by the standard library alone.

        A body of bytes is sent as it is; anything else as JSON.
        """
        connection = http.client.HTTPConnection(*self.address, timeout=timeout)
        try:
            raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, raw)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        headers = {name.lower(): value for name, value in response.getheaders()}
        if headers.get("content-type") == "application/json":
            return response.status, headers, json.loads(content)
        return response.status, headers, content.decode()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def serving(*arguments: str, port: int = 0) -> Iterator[Server]:
    """A server that is ready; stopped at the end, unless it is already."""
    process = subprocess.Popen(
        [sys.executable, "-m", "retrieval.serve", "--port", str(port), *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + START_S
        while not select.select([process.stdout], [], [], 1)[0]:
            assert time.monotonic() < until, "the server does not start"
        ready = process.stdout.readline()
        assert ready, process.stderr.read()
        yield Server(ready.split()[0], ready, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
