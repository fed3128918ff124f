"""The file behind `cassette`: a header, passages, and answers that refer to them, as JSON Lines."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .errors import InputError, RetrievalError
from .types import Hit, Passage

FORMAT, VERSION = "retrieval-cassette", 1


@dataclass(frozen=True, slots=True)
class Header:
    """Whose answers these are.

    Attributes:
        fingerprint: Of the corpus.
        engine: What `retrieval.compose.describe` says of the engine; None for any.
    """

    fingerprint: str
    engine: dict[str, Any] | None


class Recording:
    """Answers in memory, and the file they come from and go to.

    Several processes may append to one file (a line is written at once, under the file's lock), but
    each sees only what was there when it opened the file, and what it added. Not for threads.

    Attributes:
        header: As on file.
    """

    def __init__(self, file: Path, expected: Header | None, writable: bool) -> None:
        """Open the file; with `writable`, begin it if there is none.

        Args:
            file: The file.
            expected: What its header must say; where there is no file, what it will say.
            writable: Whether `add` will be called. A last line that was cut is then removed.

        Raises:
            InputError: Missing, damaged, or of another corpus or engine.
        """
        self._file = file
        self._passages: dict[str, Passage] = {}
        self._answers: dict[str, dict[int, tuple[Hit, ...]]] = {}
        if writable and expected is not None:
            self._begin(expected)
        lines = self._lines()
        self.header = self._checked(next(lines, {}), expected, writable)
        for number, line in enumerate(lines, 2):
            try:
                self._take(line)
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(
                    f"{file}: line {number} is damaged ({error!r}); remove it or record anew"
                ) from error

    def find(self, query: str, k: int) -> list[Hit] | None:
        """The answer on file, cut to k hits; None where there is none for k or more."""
        known = self._answers.get(query, {})
        enough = min((recorded for recorded in known if recorded >= k), default=None)
        return None if enough is None else list(known[enough][:k])

    def add(self, answers: Mapping[str, Sequence[Hit]], k: int) -> None:
        """Append answers; a later one for the same query and k counts.

        Raises:
            RetrievalError: The file cannot be written; nothing of this is remembered.
        """
        lines, passages = list[dict[str, Any]](), dict[str, Passage]()
        for query, hits in answers.items():
            for hit in hits:
                if hit.passage.id not in self._passages and hit.passage.id not in passages:
                    passages[hit.passage.id] = hit.passage
                    lines.append({"passage": asdict(hit.passage)})
            pairs = [[hit.passage.id, hit.score] for hit in hits]
            lines.append({"query": query, "k": k, "hits": pairs})
        try:
            with self._file.open("ab", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                _write(file.fileno(), b"".join(map(_line, lines)))
        except OSError as error:
            raise RetrievalError(f"{self._file}: cannot be written ({error.strerror})") from error
        self._passages |= passages
        for query, hits in answers.items():
            self._answers.setdefault(query, {})[k] = tuple(hits)

    def _begin(self, header: Header) -> None:
        """Make the file whole: cut off half a line, write the header where there is none."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a+b", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                whole = _whole(file.fileno())
                file.truncate(whole)
                if not whole:
                    named = {"format": FORMAT, "version": VERSION, **asdict(header)}
                    _write(file.fileno(), _line(named))
        except OSError as error:
            raise InputError(
                f"{self._file}: cannot be written ({error.strerror}); give another path"
            ) from error

    def _lines(self) -> Iterator[Any]:
        """The whole lines, parsed; half a line at the end is left out."""
        read = 0
        try:
            with self._file.open("rb") as file:
                for line in file:
                    read += 1
                    if line.endswith(b"\n"):
                        yield json.loads(line)
        except FileNotFoundError:
            raise InputError(
                f"{self._file}: no such recording; make one with mode=auto and of=ENGINE"
            ) from None
        except OSError as error:
            raise InputError(f"{self._file}: cannot be read ({error.strerror})") from error
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{self._file}: line {read} is no JSON; give a recording, or record anew"
            ) from error

    def _checked(self, line: Any, expected: Header | None, same_engine: bool) -> Header:
        if not isinstance(line, dict) or line.get("format") != FORMAT:
            raise InputError(f"{self._file}: not a recording; give a file that mode=auto made")
        if line.get("version") != VERSION:
            raise InputError(f"{self._file}: of another version of this program; record anew")
        header = Header(str(line.get("fingerprint")), line.get("engine"))
        if expected is not None and header.fingerprint != expected.fingerprint:
            raise InputError(
                f"{self._file}: recorded on another corpus ({header.fingerprint[:19]}..., this one "
                f"is {expected.fingerprint[:19]}...); give that corpus, or another file"
            )
        if same_engine and expected is not None and header.engine != expected.engine:
            raise InputError(
                f"{self._file}: recorded from {header.engine}, not from {expected.engine}; "
                "give another file"
            )
        return header

    def _take(self, line: Any) -> None:
        """One line after the header."""
        if "passage" in line:
            passage = Passage(**line["passage"])
            self._passages[passage.id] = passage
            return
        hits = tuple(
            Hit(self._passages[identifier], float(score), rank)
            for rank, (identifier, score) in enumerate(line["hits"], 1)
        )
        self._answers.setdefault(line["query"], {})[int(line["k"])] = hits


def _line(value: Any) -> bytes:
    # ASCII only: a lone surrogate, which an agent may write, has no UTF-8 but does have an escape.
    return json.dumps(value).encode("ascii") + b"\n"


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _whole(descriptor: int) -> int:
    """The length of a file up to its last whole line."""
    block, end = 1 << 16, os.fstat(descriptor).st_size
    while end:
        start = max(0, end - block)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
