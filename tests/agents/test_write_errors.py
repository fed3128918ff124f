"""A full disk, a folder that may no longer be written to: one line, and the run can go on."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.train_command import main
from tests.agents import runs
from tests.agents.equal_runs import check_logs, equal_tensors

Capture = pytest.CaptureFixture[str]
PLAIN: dict[str, Any] = {"warm_start": {"steps": 0}, "evaluation": {"questions": 0}}


def mounted(folder: Path, *options: str) -> bool:
    """Whether this machine lets us: as root, in a container that may."""
    command = ["mount", *options, str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of 800 KB, in memory."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not mounted(disk, "-t", "tmpfs", "-o", "size=800k", "none"):
        pytest.skip("needs the right to mount")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def one_step(folder: Path, run: Path) -> list[Any]:
    """The arguments of a run of one step."""
    return ["--config", runs.config_file(folder, **PLAIN), "--run.dir", run, "--run.steps=1"]


def whole_checkpoints(run: Path) -> dict[str, set[str]]:
    return {
        folder.name: {path.name for path in folder.iterdir()}
        for folder in (run / "checkpoints").iterdir()
    }


def test_a_full_disk_is_one_line_and_the_last_checkpoint_is_whole(
    small_disk: Path, tmp_path: Path, capsys: Capture
) -> None:
    file = runs.config_file(tmp_path, **PLAIN)
    argv = ["--config", file, "--run.steps=20", "--run.save_every=1"]
    run = small_disk / "run"
    result = runs.call(capsys, main, *argv, "--run.dir", run)
    assert result.status == 1
    assert result.err.splitlines()[-1] == (
        f"train.py: cannot write to {run}: No space left on device; free space or make it "
        f"writable, then go on with: python train.py --resume {run}"
    )
    found = whole_checkpoints(run)
    assert len(found) >= 2
    assert len({frozenset(names) for names in found.values()}) == 1  # the newest has all its files
    assert not list(run.rglob("*writing*"))
    # Room is made, by what the message says; the rest is as if it had been there all the time.
    steps = len(found) + 1
    oldest = sorted(found)[:-1]
    for name in oldest:
        shutil.rmtree(run / "checkpoints" / name)
    flags = [f"--run.steps={steps}", "--run.keep_checkpoints=1"]
    assert runs.call(capsys, main, "--resume", run, *flags).status == 0
    other = tmp_path / "other"
    argv += ["--run.dir", other, f"--run.steps={steps}"]
    assert runs.call(capsys, main, *argv).status == 0
    check_logs(run, other)
    name = f"checkpoints/step-{steps:06d}/adapter_model.safetensors"
    assert equal_tensors(run / name, other / name)


def test_a_disk_that_has_become_read_only(
    small_disk: Path, tmp_path: Path, capsys: Capture
) -> None:
    run = small_disk / "run"
    argv = one_step(tmp_path, run)
    assert runs.call(capsys, main, *argv).status == 0
    before = runs.contents(run)
    assert mounted(small_disk, "-o", "remount,ro")
    said = runs.call(capsys, main, "--resume", run, "--run.steps=2").refused()
    assert said == (
        f"run.dir: {run} cannot be made: {run} is not a folder that can be written to; choose "
        "another"
    )
    assert runs.contents(run) == before


@pytest.mark.parametrize("name", ["checkpoints", "metrics.jsonl"])
def test_what_cannot_be_written_to_names_the_folder(
    name: str, tmp_path: Path, capsys: Capture
) -> None:
    """Something else stands where the run writes: that stops root too."""
    run = tmp_path / "run"
    argv = one_step(tmp_path, run)
    assert runs.call(capsys, main, *argv).status == 0
    (run / name).rename(run / "mine")
    (run / name).mkdir() if name == "metrics.jsonl" else (run / name).write_text("")
    result = runs.call(capsys, main, "--resume", run, "--run.steps=2")
    assert result.status == 1
    assert re.fullmatch(
        rf"train\.py: cannot write to {run}: [\w ]+; free space or make it writable, then go on "
        rf"with: python train\.py --resume {run}",
        result.err.splitlines()[-1],
    )
