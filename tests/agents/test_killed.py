"""T13 for real: train.py dies without warning anywhere, goes on, and ends as if it had not."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agents.train_command import main
from tests.agents import forks, runs
from tests.agents.equal_runs import check_equal, scalars
from tests.agents.forks import Forks


@pytest.fixture(scope="module")
def server() -> Iterator[Forks]:
    with Forks() as server:
        yield server


class Whole:
    """An uninterrupted run: its folder, its changes of files and its seconds."""

    def __init__(self, server: Forks, folder: Path, **changes: Any) -> None:
        self.config = runs.config_file(folder, **changes)
        self.folder = folder / "run"
        log = folder / "log"
        began = time.monotonic()
        argv = ["--config", self.config, "--run.dir", self.folder]
        assert server.run(log, argv, watch=str(self.folder)) == 0, log.read_text()
        self.seconds = time.monotonic() - began
        self.changes = forks.changes(log)


@pytest.fixture(scope="module")
def whole(server: Forks, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """4 steps, checkpoints at 0, 2 and 4 of which two stay, evaluation."""
    folder = tmp_path_factory.mktemp("whole")
    return Whole(server, folder, run={"keep_checkpoints": 2, "seed": 7, "steps": 4})


def die_and_go_on(server: Forks, whole: Whole, folder: Path, **orders: Any) -> Path:
    """Kill a run as ordered, or after some seconds; then resume it to its end."""
    run, log = folder / "run", folder / "log"
    seconds = orders.pop("after_s", None)
    argv = ["--config", whole.config, "--run.dir", run]
    process = server.start(log, argv, watch=str(run), **orders)
    if seconds is not None:
        time.sleep(seconds)
        kill(process)
    status = server.wait()
    assert seconds is not None or status < 0, log.read_text()
    if (run / "config.yaml").exists():
        argv = ["--resume", run]
    elif run.exists():  # all that there is to a run is what it was told
        argv += ["--overwrite"]
    assert server.run(log, argv) == 0, log.read_text()
    return run


def kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it may have ended just now
        os.kill(process, signal.SIGKILL)


def points(whole: Whole, count: int, seed: int) -> list[int]:
    """Some of the run's changes of files, one drawn from each of `count` equal parts."""
    draw = random.Random(seed)
    borders = [1 + whole.changes * part // count for part in range(count + 1)]
    return [draw.randrange(low, high) for low, high in pairwise(borders)]


def test_it_dies_at_any_change_of_a_file(server: Forks, whole: Whole, tmp_path: Path) -> None:
    """At the start, about the steps and their checkpoints, and at the end."""
    for point in points(whole, 2, seed=1):
        folder = tmp_path / str(point)
        folder.mkdir()
        check_equal(die_and_go_on(server, whole, folder, die_at=point), whole.folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adapter_model.safetensors", "README.md"])
def test_it_dies_in_the_middle_of_a_checkpoints_file(
    name: str, server: Forks, whole: Whole, tmp_path: Path
) -> None:
    """By SIGXFSZ, the kernel's own kill -9 of who writes too much."""
    file = whole.folder / "checkpoints" / "step-000004" / name
    run, log = tmp_path / "run", tmp_path / "log"
    argv = ["--config", whole.config, "--run.dir", run]
    status = server.run(log, argv, die_in_file=file.stat().st_size // 2)
    assert status == -signal.SIGXFSZ
    (scratch,) = run.rglob("writing-*")
    assert list((scratch / "step-000000").iterdir())
    assert not list((run / "checkpoints").glob("step-*"))
    assert server.run(log, ["--resume", run]) == 0, log.read_text()
    check_equal(run, whole.folder)


def test_it_is_killed_between_steps_and_goes_on_here(
    server: Forks, whole: Whole, tmp_path: Path
) -> None:
    """SIGKILL from outside, as soon as the third step is written down; TensorBoard too goes on."""
    run = tmp_path / "run"
    process = server.start(tmp_path / "log", ["--config", whole.config, "--run.dir", run])
    log = run / "metrics.jsonl"
    while not (log.exists() and log.read_bytes().count(b"\n") >= 3):
        time.sleep(0.002)
    kill(process)
    assert server.wait() == -signal.SIGKILL
    # TensorBoard reads event files by the second of their creation, then by process id: within one
    # second the resumed run's could come first.
    time.sleep(1.1)
    assert main(["--resume", str(run)]) == 0
    check_equal(run, whole.folder)
    assert scalars(run) == scalars(whole.folder)


@pytest.mark.parametrize("order", ["max_file", pytest.param("die_in_file", marks=pytest.mark.slow)])
def test_rollouts_that_cannot_grow_end_in_half_a_line(
    order: str, server: Forks, tmp_path: Path
) -> None:
    """The disk's limit as an error, and as a kill in the middle of a line."""
    changes: dict[str, Any] = {
        "run": {"steps": 8, "save_every": 1, "token_transcripts": 0},
        "warm_start": {"steps": 0},
        "optimizer": {"name": "sgd", "lr": 0.5},  # whose moments would be larger than the rollouts
        "evaluation": {"questions": 1},
    }
    whole = Whole(server, tmp_path / "whole", **changes)
    sizes = {path.name: path.stat().st_size for path in whole.folder.rglob("*") if path.is_file()}
    del sizes["report.html"]  # made when the run has ended, at the end without a limit
    limit = sizes.pop("rollouts.jsonl") * 3 // 4
    assert limit > max(sizes.values())
    run, log = tmp_path / "run", tmp_path / "log"
    argv = ["--config", whole.config, "--run.dir", run]
    status = server.run(log, argv, **{order: limit})
    assert (run / "rollouts.jsonl").stat().st_size == limit
    assert not (run / "rollouts.jsonl").read_bytes().endswith(b"\n")
    if order == "max_file":
        said = [line for line in log.read_text().splitlines() if line.startswith("train.py: ")]
        assert (status, said) == (
            1,
            [
                f"train.py: cannot write to {run}: File too large; free space or make it "
                f"writable, then go on with: python train.py --resume {run}"
            ],
        )
    else:
        assert status == -signal.SIGXFSZ
    assert server.run(log, ["--resume", run]) == 0, log.read_text()
    check_equal(run, whole.folder)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_t13_at_20_random_points(server: Forks, whole: Whole, tmp_path: Path) -> None:
    """14 changes of files, 6 moments: in the warm start, in play, in updates, in evaluation."""
    draw = random.Random(13)
    orders: list[dict[str, Any]] = [{"die_at": point} for point in points(whole, 14, seed=13)]
    orders += [{"after_s": whole.seconds * (place + draw.random()) / 6} for place in range(6)]
    assert len(orders) == 20
    for number, order in enumerate(orders):
        folder = tmp_path / str(number)
        folder.mkdir()
        check_equal(die_and_go_on(server, whole, folder, **order), whole.folder)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_t13_where_the_guard_rolls_back(server: Forks, tmp_path: Path) -> None:
    """Kills about a rollback: its event, its checkpoint, the removal of those not kept."""
    algorithm = {"name": "tests.agents.faulty_grpo", "nan": [8, 9]}
    changes: dict[str, Any] = {
        "algorithm": algorithm,
        "run": {"steps": 8, "save_every": 1, "keep_checkpoints": 1},
        "guard": {"window": 2},
        "warm_start": {"steps": 0},
        "evaluation": {"questions": 2},
    }
    whole = Whole(server, tmp_path / "whole", **changes)
    assert len(runs.read_rows(whole.folder / "events.jsonl")) == 1
    for point in points(whole, 10, seed=2):
        folder = tmp_path / str(point)
        folder.mkdir()
        check_equal(die_and_go_on(server, whole, folder, die_at=point), whole.folder)
