"""Jobs for two processes, forked after the imports, which cost more than the jobs.

`python -m tests.agents.two_processes OUT RUN`: OUT/JOB-RANK.json holds what each process
found, OUT/statuses.json how it ended.
"""

import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from agents import processes, training
from agents.exchange import gather_trajectories
from agents.train_command import main
from retrieval.errors import InputError
from tests.agents import builds, process_cases

torch.set_num_threads(1)


def outcome(work: Callable[[], object]) -> str:
    try:
        with processes.together():
            work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def refuse(*ranks: int) -> None:
    if processes.rank() in ranks:
        raise InputError(f"bad input in {processes.rank()}")


def agreement(step: int | None) -> str:
    try:
        training._check_agreement(step)
    except (InputError, processes.FailedElsewhere) as error:
        return str(error)
    return "done"


def together(out: Path, run: str) -> Any:
    processes.join()
    rank = processes.rank()
    mine = builds.random_trajectories(3 + rank, seed=rank)
    numbers = torch.full((2,), rank + 1.0)
    here, gone = torch.full((2, 3), rank + 1.0), None
    ours = [here, here[0] if rank else gone, gone]
    sums = processes.sums(ours, [here, here[0], here])
    processes.copy_from_first([numbers])
    everyone = [t for r in (0, 1) for t in builds.random_trajectories(3 + r, seed=r)]
    return {
        "fails": [
            outcome(lambda ranks=ranks: refuse(*ranks)) for ranks in [(), (0,), (1,), (0, 1)]
        ],
        "shares": [list(range(5))[processes.share(5)], list(range(1))[processes.share(1)]],
        "gathered": [len(part) for part in processes.gather(b"x" * (1 + 999 * rank))],
        "trajectories": gather_trajectories(mine) == everyone,
        "sums": [None if total is None else total.tolist() for total in sums],
        "copied": numbers.tolist(),
        "same step": agreement(2),
        "other step": agreement(None if rank else 2),
    }


def updates(out: Path, run: str) -> Any:
    processes.join()
    found = {}
    for name, case in process_cases.CASES.items():
        weights, metrics = process_cases.update(case)
        save_file(weights, out / f"{name}-{processes.rank()}.safetensors")
        found[name] = metrics
    return found


def killed(out: Path, run: str) -> Any:
    processes.join()
    if processes.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome(lambda: None)


def resumed(out: Path, run: str) -> Any:
    return main(["--resume", run])


def guarded(out: Path, run: str) -> Any:
    return main(["--config", str(out / "faulty" / "small.yaml"), "--run.dir", str(out / "guarded")])


def signalled(out: Path, run: str) -> Any:
    """The second process gets a Ctrl-C in the update of step 2, one of whose groups is 2."""
    groups = "[2]" if os.environ["RANK"] == "1" else "[]"
    flags = [f"--algorithm.interrupt={groups}", "--algorithm.nan=[]"]
    folder = str(out / "signalled")
    return main(["--config", str(out / "faulty" / "small.yaml"), "--run.dir", folder, *flags])


JOBS = (together, updates, resumed, guarded, signalled, killed)


def work(job: Callable[[Path, str], Any], rank: int, out: Path, run: str) -> None:
    """In a child: do the job and end, without what the parent would do at its end."""
    status = 1
    signal.alarm(900)  # whatever waits for ever ends here, when nobody looks after it any more
    try:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
        found = job(out, run)
        (out / f"{job.__name__}-{rank}.json").write_text(json.dumps(found))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_all(out: Path, run: str) -> None:
    """All jobs, one after the other."""
    statuses = {}
    for job in JOBS:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        children = []
        for rank in (0, 1):
            child = os.fork()
            if not child:
                work(job, rank, out, run)
            children.append(child)
        ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        statuses[job.__name__] = ended
    (out / "statuses.json").write_text(json.dumps(statuses))


if __name__ == "__main__":
    run_all(Path(sys.argv[1]), sys.argv[2])
