"""Weights & Biases: the library itself, offline, where it is installed; refusals elsewhere."""

import ast
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agents.train_command import main
from agents.wandb_run import WandbRun, check
from retrieval.errors import InputError
from tests.agents import runs

INSTALLED = importlib.util.find_spec("wandb") is not None
needs_wandb = pytest.mark.skipif(not INSTALLED, reason="wandb is not installed: pip install wandb")


def test_without_the_library_a_run_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)  # as if it were not there
    file = runs.config_file(tmp_path)
    argv = ["--config", file, "--run.dir", tmp_path / "run", "--run.wandb=search"]
    said = runs.call(capsys, main, *argv).refused()
    assert said == (
        "run.wandb: Weights & Biases is not installed; run `pip install wandb`, or leave run.wandb "
        "out"
    )
    assert not (tmp_path / "run").exists()


def test_a_folder_of_that_name_is_not_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What earlier runs leave in the working folder imports as an empty package."""
    (tmp_path / "wandb").mkdir()
    monkeypatch.setitem(sys.modules, "wandb", None)  # what is imported below is forgotten again
    monkeypatch.delitem(sys.modules, "wandb")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(InputError, match=r"Weights & Biases is not installed"):
        check("search")


def test_it_is_not_imported_unless_asked_for() -> None:
    check(None)
    package = Path(__file__).parents[2] / "agents"
    for file in package.rglob("*.py"):
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        named = [alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names]
        assert "wandb" not in named, file


@needs_wandb
def test_a_damaged_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wandb.json").write_text("{")
    with pytest.raises(InputError, match=r"wandb.json: damaged; remove it"):
        WandbRun("search", tmp_path, {})


def records(data: bytes) -> Iterator[bytes]:
    """Of an offline log: LevelDB's format (blocks of 32 KiB, CRC, length, kind), after 7 bytes."""
    place, whole = 7, b""
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        length, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        part = data[place + 7 : place + 7 + length]
        place += 7 + length
        whole = part if kind in (1, 2) else whole + part
        if kind in (1, 4):
            yield whole


def logged(folder: Path) -> list[tuple[str, dict[int, dict[str, float]]]]:
    """Of every offline log, oldest first: the run's id, and step -> numbers."""
    from wandb.proto.wandb_internal_pb2 import Record

    found = []
    for file in sorted((folder / "wandb").glob("offline-run-*/*.wandb")):
        name, steps = "", {}
        for data in records(file.read_bytes()):
            record = Record.FromString(data)
            name = record.run.run_id or name
            row = {
                item.key or item.nested_key[0]: json.loads(item.value_json)
                for item in record.history.item
            }
            if row:
                step = row.get("_step", record.history.step.num)
                numbers = {key: value for key, value in row.items() if not key.startswith("_")}
                steps[step] = numbers
        found.append((name, steps))
    return found


@needs_wandb
@pytest.mark.slow
def test_it_gets_the_numbers_of_tensorboard_and_goes_on_as_the_same_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    folder = tmp_path / "run"
    file = runs.config_file(tmp_path, evaluation={"questions": 0})
    argv = ["--config", file, "--run.dir", folder, "--run.wandb=search", "--run.steps=2"]
    assert runs.call(capsys, main, *argv).status == 0
    assert runs.call(capsys, main, "--resume", folder, "--run.steps=4").status == 0
    (first, one), (second, two) = logged(folder)
    assert first == second == json.loads((folder / "wandb.json").read_text())["id"]
    assert list(one) == [1, 2] and list(two) == [3, 4]
    board = EventAccumulator(str(folder / "tensorboard"))
    board.Reload()
    names = board.Tags()["scalars"]
    assert len(names) > 15 and one[1].keys() <= set(names)
    for name in names:
        expected = {event.step: event.value for event in board.Scalars(name)}
        given = {step: row[name] for step, row in {**one, **two}.items() if name in row}
        assert given == pytest.approx(expected, rel=1e-6, nan_ok=True)
