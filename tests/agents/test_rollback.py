"""A collapse is undone, a run goes on more carefully or gives up, and resumes bit for bit."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from agents.train_command import main
from tests.agents import runs
from tests.agents.equal_runs import check_equal, check_last_checkpoint, equal_tensors, rows

Capture = pytest.CaptureFixture[str]
# Two groups a step, counted from 0: those of step s are 2 s - 2 and 2 s - 1.
FAULTY: dict[str, Any] = {
    "run": {"steps": 8, "save_every": 2},
    "guard": {"window": 2, "lr_factor": 0.5, "kl_factor": 3.0},
    "warm_start": {"steps": 0},
    "evaluation": {"questions": 2},
}


def groups(*steps: int) -> tuple[int, ...]:
    return tuple(group for step in steps for group in (2 * step - 2, 2 * step - 1))


def start(folder: Path, *argv: str, nan: Sequence[int] = (), **changes: Any) -> int:
    algorithm = {"name": "tests.agents.faulty_grpo", "nan": list(groups(*nan))}
    file = runs.config_file(folder, **{**FAULTY, "algorithm": algorithm, **changes})
    return main(["--config", str(file), "--run.dir", str(folder / "run"), *argv])


def adapter(folder: Path, step: int) -> Path:
    return folder / "checkpoints" / f"step-{step:06d}" / "adapter_model.safetensors"


def training(folder: Path, step: int) -> dict[str, Any]:
    return json.loads((adapter(folder, step).parent / "state.json").read_text())["training"]


@pytest.fixture(scope="module")
def rolled_back(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NaN in steps 5 and 6; for copying only."""
    folder = tmp_path_factory.mktemp("rolled_back")
    assert start(folder, nan=(5, 6)) == 0
    return folder / "run"


def test_nan_is_rolled_back_and_written_down(rolled_back: Path) -> None:
    common = {"kind": "skipped_steps", "value": 2.0, "threshold": 0, "action": "rolled back"}
    # The checkpoint of step 2 was good from step 4 on, that of step 4 not yet.
    assert runs.read_rows(rolled_back / "events.jsonl") == [
        {"step": 5, **common, "restored": 2, "lr_scale": 0.5},
        {"step": 6, **common, "restored": 2, "lr_scale": 0.25},
    ]
    for step in (5, 6):
        assert equal_tensors(adapter(rolled_back, step), adapter(rolled_back, 2))
        moments = [adapter(rolled_back, s).with_name("optimizer.safetensors") for s in (step, 2)]
        assert equal_tensors(*moments)
    assert not equal_tensors(adapter(rolled_back, 4), adapter(rolled_back, 2))
    assert [r["step"] for r in training(rolled_back, 8)["lineage"]["rollbacks"]] == [5, 6]


def test_every_step_has_its_line_and_goes_on_to_other_questions(rolled_back: Path) -> None:
    lines = rows(rolled_back / "metrics.jsonl")
    assert [line["step"] for line in lines] == list(range(1, 9))
    assert [line["skipped_steps"] for line in lines] == [0, 0, 0, 0, 2, 2, 0, 0]
    assert all(line["nonfinite_weights"] == 0 for line in lines)
    assert [line["policy_loss"] is None for line in lines] == [False] * 4 + [True] * 2 + [False] * 2
    # 0.1 as configured; 3 times that after each rollback to the checkpoint from before the first.
    expected = [0.1] * 5 + [0.3] + [0.9] * 2
    assert [line["kl_coef"] for line in lines] == pytest.approx(expected)
    found = {line["group_id"] for line in runs.read_rows(rolled_back / "rollouts.jsonl")}
    assert found == set(range(16))


def test_after_a_rollback_steps_are_smaller(rolled_back: Path) -> None:
    """Adam's first step moves each weight by almost the learning rate: 0.01, then a quarter."""
    moved = []
    for before, after in ((0, 2), (6, 8)):
        one, other = (load_file(adapter(rolled_back, step)) for step in (before, after))
        moved.append(max(float((other[key] - one[key]).abs().max()) for key in one))
    assert moved[1] < 0.5 * moved[0]


KILLED = {
    "before the first rollback was saved": (5, 6, 8),
    "between the rollbacks": (6, 8),
}


@pytest.mark.parametrize("lost", KILLED.values(), ids=KILLED)
def test_resuming_around_a_rollback_equals_the_uninterrupted_run(
    lost: tuple[int, ...], rolled_back: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(rolled_back, tmp_path / "run"))
    for step in lost:
        shutil.rmtree(adapter(folder, step).parent)
    (folder / "summary.json").unlink()
    (folder / "evaluation" / "after.jsonl").unlink()
    assert main(["--resume", str(folder)]) == 0
    check_equal(folder, rolled_back)


def test_a_collapse_by_an_absurd_learning_rate_is_undone(tmp_path: Path) -> None:
    flags = ["--optimizer.lr=30", "--guard.ratio_tail=0.3", "--guard.lr_factor=1e-4"]
    assert start(tmp_path, *flags, "--run.steps=4") == 0
    folder = tmp_path / "run"
    (event,) = runs.read_rows(folder / "events.jsonl")
    assert (event["step"], event["kind"], event["restored"]) == (1, "ratio_tail", 0)
    assert event["value"] > 0.3 and event["lr_scale"] == 1e-4
    lines = rows(folder / "metrics.jsonl")
    assert lines[0]["ratio_tail"] == event["value"]
    assert all(line["ratio_tail"] < 0.05 for line in lines[1:])
    assert equal_tensors(adapter(folder, 1), adapter(folder, 0))
    assert not equal_tensors(adapter(folder, 4), adapter(folder, 0))


def test_weights_that_give_no_probabilities_are_rolled_back(tmp_path: Path) -> None:
    """Finite, but too large to compute with: what samples the next step notices."""
    flags = ["--optimizer.lr=1e30", "--guard.skipped_steps=null", "--guard.lr_factor=1e-32"]
    assert start(tmp_path, *flags, "--run.steps=4", guard={"window": 2}) == 0
    folder = tmp_path / "run"
    (event,) = runs.read_rows(folder / "events.jsonl")
    assert (event["step"], event["kind"], event["value"]) == (2, "sampling", None)
    # Nothing was played in that step.
    assert [line["step"] for line in rows(folder / "metrics.jsonl")] == [1, 3, 4]
    assert equal_tensors(adapter(folder, 2), adapter(folder, 0))


def test_it_gives_up_cleanly_and_goes_on_when_it_is_allowed_more(
    rolled_back: Path, tmp_path: Path, capsys: Capture
) -> None:
    capsys.readouterr()
    argv = ("--guard.max_rollbacks=1",)
    assert start(tmp_path, *argv, nan=(5, 6)) == 3
    folder = tmp_path / "run"
    said = capsys.readouterr().err.splitlines()[-1]
    good = adapter(folder, 2).parent
    assert said == (
        "train.py: the guard gave up at step 6: skipped_steps is 2, above 0, after 1 rollbacks; "
        f"the last good checkpoint is {good}; lower optimizer.lr, or raise guard.max_rollbacks"
    )
    events = runs.read_rows(folder / "events.jsonl")
    assert [event["action"] for event in events] == ["rolled back", "gave up"]
    # What eval.py takes, the newest checkpoint, is the good one again.
    assert equal_tensors(adapter(folder, 6), adapter(folder, 2))
    assert not (folder / "summary.json").exists()
    assert "gave up" in (folder / "report.html").read_text(encoding="utf-8")
    before = runs.contents(folder)
    result = runs.call(capsys, main, "--resume", folder)
    assert (result.status, result.err.splitlines()[-1]) == (3, said)
    assert_same_but_for_the_board(runs.contents(folder), before)
    assert main(["--resume", str(folder), "--guard.max_rollbacks=3"]) == 0
    assert rows(folder / "metrics.jsonl") == rows(rolled_back / "metrics.jsonl")
    check_last_checkpoint(folder, rolled_back)


def assert_same_but_for_the_board(one: dict[str, bytes], other: dict[str, bytes]) -> None:
    names = {name for name in {*one, *other} if not name.startswith("tensorboard")}
    assert {n: one.get(n) for n in names} == {n: other.get(n) for n in names}


def test_without_the_guard_nan_is_skipped_and_the_run_goes_on(tmp_path: Path) -> None:
    argv = ("--guard.enabled=false", "--run.save_every=1", "--run.steps=4")
    assert start(tmp_path, *argv, nan=(2,)) == 0
    folder = tmp_path / "run"
    assert not (folder / "events.jsonl").exists()
    assert [line["skipped_steps"] for line in rows(folder / "metrics.jsonl")] == [0, 2, 0, 0]
    assert equal_tensors(adapter(folder, 2), adapter(folder, 1))
    assert not equal_tensors(adapter(folder, 3), adapter(folder, 2))


def test_a_factor_for_a_penalty_that_is_not_there_is_refused(
    tmp_path: Path, capsys: Capture
) -> None:
    file = runs.config_file(tmp_path, penalty={"name": "none"})
    argv = ["--config", file, "--run.dir", tmp_path / "run", "--guard.kl_factor=2"]
    assert runs.call(capsys, main, *argv).refused() == (
        "guard.kl_factor: there is no KL penalty; give --penalty.name kl, or 1"
    )
