"""A `vllm serve` of our own: started beside a run, stopped with it."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import urllib3

from retrieval.errors import InputError

# vLLM knows no other largest ranks.
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
_STOP_S = 30.0
_POLL_S = 0.5
_ERROR = re.compile(r"\b\w*(Error|Exception|error): .+")
_COMPLAINT = 300  # characters of it that are shown
# Of our interpreter, and of a launcher of several processes: the server has its own.
_OURS = (
    *("PYTHONPATH", "VIRTUAL_ENV"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
)
_INSTALL = (
    "install vLLM in an environment of its own (requirements-vllm.txt) and give "
    "--engine.executable PATH/bin/vllm, or --engine.server URL of a running one"
)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What to serve, and with what.

    Attributes:
        executable: The `vllm` command.
        model: A folder or a hub name.
        dtype: "float32" or "bfloat16".
        lora_rank: Of the adapters to come; 0 for none.
        gpu: The index of the only GPU to use; None to leave that to the environment.
        flags: Further ones of `vllm serve`.
    """

    executable: str
    model: str
    dtype: str
    lora_rank: int
    gpu: int | None
    flags: tuple[str, ...]


class VllmProcess:
    """A server on a port of this machine that answers no one else.

    Attributes:
        url: Where it answers.
    """

    def __init__(self, options: ServerOptions, log: Path, timeout_s: float) -> None:
        """Start it and wait until it is ready.

        Args:
            options: What to serve.
            log: A file for what it says.
            timeout_s: How long it may take.

        Raises:
            InputError: There is no such command, or the server ends or is not ready in time.
        """
        command = shutil.which(options.executable)
        if command is None:
            raise InputError(f"engine.executable: no command {options.executable!r}; {_INSTALL}")
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [*_tied_to_us(), command, *_arguments(options, port)],
                env=_environment(options),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the run, which then stops the server
            )
        try:
            self._wait(timeout_s)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it, and whatever it has started."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, sign)
                self._process.wait(_STOP_S)
            except ProcessLookupError:
                self._process.wait()
            except subprocess.TimeoutExpired:
                continue

    def _wait(self, timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        with urllib3.PoolManager(retries=False, timeout=5.0) as pool:
            while True:
                status = self._process.poll()
                if status is not None:
                    raise InputError(
                        f"engine: `vllm serve` ended with status {status} ({_complaint(self._log)})"
                        f"; its log is {self._log}"
                    )
                if time.monotonic() > until:
                    raise InputError(
                        f"engine.timeout_s: `vllm serve` was not ready after {timeout_s:g} s; its "
                        f"log is {self._log}"
                    )
                try:
                    if pool.request("GET", f"{self.url}/health").status == 200:
                        return
                except urllib3.exceptions.HTTPError:
                    pass  # it does not listen yet
                time.sleep(_POLL_S)


def _arguments(options: ServerOptions, port: int) -> list[str]:
    lora: list[str] = []
    if options.lora_rank:
        largest = next((rank for rank in RANKS if rank >= options.lora_rank), None)
        if largest is None:
            raise InputError(
                f"model.lora_rank is {options.lora_rank}; vLLM serves adapters of at most rank "
                f"{RANKS[-1]}"
            )
        lora = ["--enable-lora", "--max-loras", "1", "--max-lora-rank", str(largest)]
    return [
        *("serve", options.model, "--host", "127.0.0.1", "--port", str(port)),
        *("--dtype", options.dtype, *lora),
        # Log-probabilities after the temperature: those of the distribution that was drawn from.
        *("--logprobs-mode", "processed_logprobs"),
        # Not the model's own sampling settings: a top-p from there would be another policy.
        *("--generation-config", "vllm"),
        *options.flags,
    ]


def _environment(options: ServerOptions) -> dict[str, str]:
    environment = dict(os.environ, VLLM_ALLOW_RUNTIME_LORA_UPDATING="True")
    for name in _OURS:
        environment.pop(name, None)
    if options.gpu is not None:
        visible = environment.get("CUDA_VISIBLE_DEVICES", "")
        names = visible.split(",") if visible else []
        chosen = names[options.gpu] if options.gpu < len(names) else str(options.gpu)
        environment["CUDA_VISIBLE_DEVICES"] = chosen
    return environment


def _tied_to_us() -> list[str]:
    """A prefix that ends the command when this process is killed, where Linux has the tool."""
    tool = shutil.which("setpriv")
    return [] if tool is None else [tool, "--pdeathsig", "TERM", "--"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _complaint(log: Path) -> str:
    """The first error it names, for others follow from it; else its last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [_ERROR.search(line) for line in lines if "WARNING" not in line]
    named = [error[0] for error in errors if error]
    return (named or lines[-1:] or ["it said nothing"])[0][:_COMPLAINT]
