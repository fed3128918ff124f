"""Commands of this project side by side: a few worker processes of one thread each."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Job:
    """One command.

    Attributes:
        main: What runs it: arguments in, the exit status out; a function of a module.
        flags: Its arguments.
        log: Everything it says is appended here.
    """

    main: Callable[[Sequence[str]], int]
    flags: Sequence[str]
    log: Path


def execute(jobs: Sequence[Job], workers: int, name: str, unit: str) -> Iterator[tuple[int, int]]:
    """Run all jobs from the repository's root.

    Args:
        jobs: A job depends on nothing that an earlier one left behind in its process: a worker
            starts once, since importing takes as long as many a job.
        workers: Processes.
        name: Of the progress bar.
        unit: What a job is called there.

    Yields:
        The index of a job that has ended, and its exit status.
    """
    # Two processes of several threads on as many cores wait for each other most of the time.
    os.environ["OMP_NUM_THREADS"] = "1"
    # Left alone, glibc keeps large pieces that were freed, and they seldom fit what comes next: a
    # worker that had played 42 evaluations held 19 GB, with this limit 5.7 GB after ten.
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(16 * 2**20))
    spawn = multiprocessing.get_context("spawn")
    with (
        tqdm(total=len(jobs), desc=name, unit=unit) as bar,
        ProcessPoolExecutor(workers, mp_context=spawn) as pool,
    ):
        futures = {pool.submit(_execute, job): index for index, job in enumerate(jobs)}
        for future in as_completed(futures):
            yield futures[future], future.result()
            bar.update()


def _execute(job: Job) -> int:
    os.chdir(ROOT)
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with (
        job.log.open("a", encoding="utf-8") as log,
        redirect_stdout(log),
        redirect_stderr(log),
    ):
        return job.main(job.flags)
