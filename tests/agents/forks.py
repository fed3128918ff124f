"""Runs of train.py in processes of their own that cost no import: forks of a server that waits.

`python -m tests.agents.forks` reads one request a line (JSON) and answers with the process id, then
with the exit status; it has one thread, so that forking it is safe. A child can be told to die:
at its n-th change of a file below a folder (`die_at`), or in the middle of writing a file, when
that outgrows a size (`die_in_file`); or to find its files limited (`max_file`).
"""

import json
import os
import resource
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agents.host_memory import use_large_pages

ROOT = Path(__file__).parents[2]
CHANGES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}
COUNTED = "changes of files: "


class Forks:
    """The server, from outside; a context."""

    def __enter__(self) -> "Forks":
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.agents.forks"],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *error: object) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()

    def start(self, log: Path, argv: Sequence[object], **orders: Any) -> int:
        """Start `train.py argv`; its process id. What it prints is appended to a file."""
        request = {"argv": [str(a) for a in argv], "log": str(log), **orders}
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return self._number()

    def wait(self) -> int:
        """The exit status of the one that was started; minus the signal's number if killed."""
        return self._number()

    def run(self, log: Path, argv: Sequence[object], **orders: Any) -> int:
        """Start, and wait."""
        self.start(log, argv, **orders)
        return self.wait()

    def _number(self) -> int:
        assert self._server.stdout is not None
        return int(self._server.stdout.readline())


def changes(log: Path) -> int:
    """How many changes of files a run that ended has counted."""
    lines = [line for line in log.read_text().splitlines() if line.startswith(COUNTED)]
    return int(lines[-1].removeprefix(COUNTED))


def _serve() -> None:
    use_large_pages()  # as train.py does, which finds torch loaded here
    import agents.train_command  # noqa: F401  # what takes long

    while line := sys.stdin.readline():
        child = os.fork()
        if child == 0:
            _run(json.loads(line))
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(request: dict[str, Any]) -> None:
    """In the child; does not return."""
    status = 1
    try:
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        count = _watch(request.get("watch", ""), request.get("die_at"))
        _limit(request)
        sys.argv = ["train.py", *request["argv"]]
        try:
            runpy.run_path("train.py", run_name="__main__")
        except SystemExit as end:
            status = int(end.code or 0)
        print(f"{COUNTED}{len(count)}")
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _watch(folder: str, die_at: int | None) -> list[str]:
    """Count the changes below a folder, just before each; die instead of the n-th (from 1)."""
    seen: list[str] = []

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event not in CHANGES or not folder or not str(args[0]).startswith(folder):
            return
        if event == "open" and not (isinstance(args[2], int) and args[2] & os.O_ACCMODE):
            return
        seen.append(event)
        if len(seen) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return seen


def _limit(request: dict[str, Any]) -> None:
    size = request.get("die_in_file") or request.get("max_file")
    if size:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    if request.get("die_in_file"):
        # Python ignores it, and gets an error instead.
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    _serve()
