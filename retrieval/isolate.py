"""Any engine in a process of its own, with the same answers.

Libraries quarrel within one process: FAISS and torch each bring an OpenMP, a JVM wants its own
signal handlers and memory. `Isolated` builds the engine in a fresh interpreter (spawned, not
forked: a fork of a process with threads may hang) and talks to it through a pipe. What goes through
the pipe is pickled, by this program for itself; no file is ever unpickled.
"""

import multiprocessing
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.util import Finalize
from typing import Any

from . import plugins
from .compose import fingerprint_of
from .corpus import Corpus
from .errors import InputError, RetrievalError
from .index import PACKAGE
from .ranking import check_k
from .types import Hit

MAX_DEATHS = 3
_STOP_S = 5.0


class Isolated:
    """A Retriever in another process; threads may share it, one search runs at a time.

    A process that dies fails the search that it was busy with; the next search starts another.
    After `MAX_DEATHS` deaths without an answer between them every search fails at once.

    Attributes:
        elsewhere: True.
        fingerprint: Of the corpus that is searched.
    """

    elsewhere = True

    def __init__(
        self, name: str, config: Any, corpus: Corpus | None = None, timeout_s: float = 600.0
    ) -> None:
        """Start the process and build the engine in it.

        Args:
            name: The engine, of `retrieval.retrievers` or a dotted module name.
            config: An instance of its `Config`.
            corpus: What it indexes; the passages of an index folder are read there, not sent.
            timeout_s: How long one search may take before its process is taken for hung and ended.

        Raises:
            InputError: The engine refuses the settings or the corpus.
            RetrievalError: The process died while it built the engine.
        """
        self._name = name
        self._arguments = (name, config, corpus)
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._deaths = 0
        self._worker: _Worker | None = None
        self.fingerprint = self._start()

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`.

        Raises:
            RetrievalError: The engine failed, its process died, or it took longer than `timeout_s`.
            RuntimeError: A bug in the engine, with its traceback.
        """
        check_k(k)
        with self._lock:
            if self._worker is None:
                if self._deaths >= MAX_DEATHS:
                    raise RetrievalError(
                        f"{self._name}: its process died {self._deaths} times in a row; restart "
                        "the program, or run without retriever.isolate to see why"
                    )
                self._start()
            answers: list[list[Hit]] = self._exchange((list(queries), k), self._timeout_s)
            self._deaths = 0
        return answers

    def close(self) -> None:
        """End the process; a later search starts another. It also ends with this program."""
        with self._lock:
            if self._worker is not None:
                self._worker.stop()
                self._worker = None

    def _start(self) -> str:
        self._worker = _Worker(self._arguments)
        # No limit: building an index may take hours.
        return str(self._exchange(None, None))

    def _exchange(self, request: Any, timeout_s: float | None) -> Any:
        """Send a request, if any, and wait for the reply."""
        worker = self._worker
        assert worker is not None
        try:
            kind, value = worker.exchange(request, timeout_s)
        except (EOFError, OSError) as error:  # TimeoutError is an OSError
            self._worker = None
            self._deaths += 1
            hung = isinstance(error, TimeoutError)
            code = worker.stop(hung)
            cause = (
                f"no answer within {self._timeout_s:g} s"
                if hung
                else f"its process ended with exit code {code}"
            )
            raise RetrievalError(f"{self._name}: {cause}; the next search starts another") from None
        except BaseException:
            # Interrupted while it waited: the reply must not be taken for the next one's.
            self._worker = None
            worker.stop(hung=True)
            raise
        if kind == "done":
            return value
        if request is None:
            worker.stop()
            self._worker = None
        raise _ERRORS[kind](value)


_ERRORS: dict[str, type[Exception]] = {
    "input": InputError,
    "retrieval": RetrievalError,
    "bug": RuntimeError,
}


class _Worker:
    """A process and this end of its pipe."""

    def __init__(self, arguments: tuple[str, Any, Corpus | None]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(other, *arguments), name=f"retriever {arguments[0]}", daemon=True
        )
        self._process.start()
        # Only the child holds its end now: when it dies, reading this one ends.
        other.close()
        # Before multiprocessing ends its daemons the hard way, and when this object is dropped.
        self._finish = Finalize(self, _stop, (self._process, self._pipe), exitpriority=10)

    def exchange(self, request: Any, timeout_s: float | None) -> Any:
        if request is not None:
            self._pipe.send(request)
        if timeout_s is not None and not self._pipe.poll(timeout_s):
            raise TimeoutError
        return self._pipe.recv()

    def stop(self, hung: bool = False) -> int | None:
        """End it, at once if it hangs; its exit code."""
        if hung:
            self._process.kill()
        self._finish()
        return self._process.exitcode


def _stop(process: SpawnProcess, pipe: Connection) -> None:
    """Ask it to end, then make it."""
    pipe.close()
    process.join(_STOP_S)
    if process.exitcode is None:
        process.kill()
        process.join()


def _serve(pipe: Connection, name: str, config: Any, corpus: Corpus | None) -> None:
    """The other process: build, then answer until the pipe is closed."""
    # Ctrl-C goes to both; the one that holds the pipe decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kind, built = _attempt(lambda: plugins.load(PACKAGE, name).build(config, corpus))
    try:
        if kind != "done":
            pipe.send((kind, built))
            return
        pipe.send(("done", fingerprint_of(built, corpus)))
        while True:
            queries, k = pipe.recv()
            pipe.send(_attempt(partial(built.search, queries, k)))
    except (EOFError, BrokenPipeError):
        return


def _attempt(work: Callable[[], Any]) -> tuple[str, Any]:
    """(kind, value): what it returned, or what it raised in words."""
    try:
        return "done", work()
    except InputError as error:
        return "input", str(error)
    except (RetrievalError, OSError) as error:
        return "retrieval", str(error) or repr(error)
    except Exception:  # a bug; must not pass for a failed search, and must not end the process
        return "bug", traceback.format_exc()
