"""Ctrl-C and SIGTERM: play is abandoned at once, an update is finished first."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from . import processes

_STDERR = 2


class Interrupted(KeyboardInterrupt):
    """A signal ends the command.

    Attributes:
        status: The exit status that says so: 128 + the signal's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


class Interrupts:
    """A context in which SIGINT and SIGTERM raise `Interrupted`, the first of them considerately.

    The second raises wherever it arrives. Outside the main thread, where Python handles no signals,
    and before it is entered, the context only keeps `whole`. Of several processes all stop at the
    end of the same step, whichever of them got the signal.

    Attributes:
        whole: Whether nothing is half done that should have been finished.
    """

    def __init__(self) -> None:
        self.whole = True
        self._held = False
        self._first: int | None = None
        self._replaced: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._replaced[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._replaced.items():
            if handler is not None:  # None was not installed by Python, and cannot be
                signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Work to finish: the first signal raises at its end. An error leaves it half done."""
        self._held, self.whole = True, False
        yield
        self._held, self.whole = False, True
        with processes.together():
            self._raise_held_back()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """A part of that work before which nothing was begun; one process alone may abandon it."""
        self.whole = True
        if processes.size() == 1:
            # In this order: a signal between the two lines is not overlooked.
            self._held = False
            self._raise_held_back()
        yield
        self._held, self.whole = True, False

    def _raise_held_back(self) -> None:
        if self._first is not None:
            raise Interrupted(self._first)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again = self._first is not None
        self._first = self._first or number
        if again or not self._held:
            raise Interrupted(number)
        # Not through sys.stderr, in the middle of whose own writing this may be.
        os.write(_STDERR, b"\ntrain.py: finishing this step; once more to stop at once\n")
