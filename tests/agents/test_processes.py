"""Several processes do what one does: updates, whole runs, resumption, and failing together."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from agents import eval_command, processes
from agents.assembly import build_policy
from agents.config import ModelOptions
from agents.train_command import main
from retrieval.errors import InputError
from tests.agents import dying_reward, process_cases, runs
from tests.agents.test_resume import rows

pytestmark = pytest.mark.timeout(1200)  # the fixtures' processes on a busy machine included

ROOT = Path(__file__).parents[2]
# Uneven shares: 3 groups, 5 demonstrations and 5 questions for 2 processes. State of every kind.
CHANGES: dict[str, dict[str, Any]] = {
    "env": {"reward": {"tests.agents.dying_reward": 1.0}},
    "rollout": {"questions_per_step": 3},
    "sampling": {"name": "vade", "success": 0.2},
    "algorithm": {"name": "so_ppo", "critic_rank": 2},
    "penalty": {"name": "kl", "coef": 0.1, "target": 0.01},
    "warm_start": {"episodes_per_step": 5},
    "evaluation": {"questions": 5},
}
# Two groups a step; the loss of one of step 2's is not a number.
FAULTY: dict[str, dict[str, Any]] = {
    "run": {"save_every": 100},
    "algorithm": {"name": "tests.agents.faulty_grpo", "nan": [3]},
    "warm_start": {"steps": 0},
    "evaluation": {"questions": 0},
}


@dataclass(frozen=True)
class Launched:
    """A run of 4 steps in two processes, one of which broke in step 3."""

    folder: Path
    status: int
    out: str
    err: str


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Launched:
    folder = tmp_path_factory.mktemp("launched")
    file = runs.config_file(folder, **CHANGES)
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    options = ["--num_processes=2", "--num_machines=1", "--mixed_precision=no"]
    options += ["--dynamo_backend=no", "--main_process_port=0"]
    command = ["train.py", "--config", str(file), "--run.dir", str(folder / "run")]
    second = folder / "run" / "checkpoints" / "step-000002"
    done = subprocess.run(
        [*launcher, *options, *command],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", dying_reward.VARIABLE: str(second)},
        capture_output=True,
        text=True,
        check=False,
    )
    return Launched(folder / "run", done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run in one process, to its end."""
    return alone(tmp_path_factory.mktemp("one"), CHANGES)


def alone(folder: Path, changes: dict[str, dict[str, Any]]) -> Path:
    file = runs.config_file(folder, **changes)
    assert main(["--config", str(file), "--run.dir", str(folder / "run")]) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def jobs(launched: Launched, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes found; `run` is the launched run, which they have resumed."""
    out = tmp_path_factory.mktemp("jobs")
    shutil.copytree(launched.folder, out / "run")
    runs.config_file(out / "faulty", **FAULTY)
    command = [sys.executable, "-m", "tests.agents.two_processes", out, out / "run"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    (out / "output.txt").write_text(done.stdout + done.stderr)
    assert done.returncode == 0, done.stderr
    return out


def found(jobs: Path, job: str) -> list[Any]:
    files = [jobs / f"{job}-{rank}.json" for rank in (0, 1)]
    assert all(file.exists() for file in files), (jobs / "output.txt").read_text()
    return [json.loads(file.read_text()) for file in files]


@pytest.mark.parametrize("name", process_cases.CASES)
def test_the_update_of_two_processes_is_that_of_one(name: str, jobs: Path) -> None:
    weights, metrics = process_cases.update(process_cases.CASES[name])
    first, second = (load_file(jobs / f"{name}-{rank}.safetensors") for rank in (0, 1))
    assert torch.equal(first["after"], second["after"])
    assert torch.equal(first["before"], weights["before"])
    moved = (weights["after"] - weights["before"]).abs().max()
    assert moved == 0 if "nothing" in name else moved > 1e-3
    assert (first["after"] - weights["after"]).abs().max() < 1e-6
    for other in found(jobs, "updates"):
        assert other[name] == pytest.approx(metrics, rel=1e-4, abs=1e-6, nan_ok=True)
        for count in ("trained_tokens", "optimizer_steps", "clip_fraction"):
            assert other[name][count] == metrics[count]


def test_the_cases_do_something_that_could_differ(jobs: Path) -> None:
    told, _ = found(jobs, "updates")
    assert all(told[name]["clip_norm"] > 0 for name in ("so_ppo, step", "so_ppo, gradient"))
    assert told["so_ppo, step"]["grad_scale"] < 1
    assert all(told[name]["value_loss"] > 0 for name in told if "ppo" in name)
    steered = [name for name in told if "kl" in name]
    assert len(steered) == 2
    assert all(told[name]["kl_coef_next"] != told[name]["kl_coef"] != 0.3 for name in steered)


def test_what_fails_in_one_process_fails_in_all_and_is_said_once(jobs: Path) -> None:
    fails = [there["fails"] for there in found(jobs, "together")]
    elsewhere = "FailedElsewhere: "
    assert fails == [
        ["done", "InputError: bad input in 0", elsewhere, "InputError: bad input in 0"],
        ["done", elsewhere, "InputError: bad input in 1", elsewhere],
    ]


def test_processes_that_find_different_checkpoints_are_refused(jobs: Path) -> None:
    first, second = found(jobs, "together")
    assert first["same step"] == second["same step"] == "done"
    assert second["other step"] == ""  # said once
    assert first["other step"] == (
        "--resume: the processes found checkpoints of steps 2, None; the run folder must lie on a "
        "file system that all machines share"
    )


def test_shares_sums_and_gathers(jobs: Path) -> None:
    first, second = found(jobs, "together")
    assert first["shares"] == [[0, 1, 2], [0]] and second["shares"] == [[3, 4], []]
    for there in (first, second):
        assert there["gathered"] == [1, 1000]
        assert there["trajectories"] is True
        # 1 + 2 where both add, 2 where only the second does, None where nobody does.
        assert there["sums"] == [[[3.0] * 3] * 2, [2.0] * 3, None]
        assert there["copied"] == [1.0, 1.0]


def test_nobody_waits_for_a_process_that_was_killed(jobs: Path) -> None:
    statuses = json.loads((jobs / "statuses.json").read_text())
    assert statuses.pop("killed") == [0, -9]
    assert set(map(tuple, statuses.values())) == {(0, 0)}
    assert json.loads((jobs / "killed-0.json").read_text()).startswith("RuntimeError: ")


def test_a_process_that_breaks_ends_the_run_and_shows_its_traceback(launched: Launched) -> None:
    assert launched.status == 1
    assert launched.err.count("RuntimeError: this reward term is broken\n") == 1
    assert 'raise RuntimeError("this reward term is broken")' in launched.err
    assert "step 2/4" in launched.out + launched.err
    steps = sorted(path.name for path in (launched.folder / "checkpoints").iterdir())
    assert steps == ["step-000000", "step-000002"]
    assert len(rows(launched.folder / "metrics.jsonl")) == 2


def check_equal(folder: Path, expected: Path, steps: int) -> None:
    """The episodes are the same, and the numbers, but for rounding."""
    made, wanted = (rows(f / "rollouts.jsonl") for f in (folder, expected))
    wanted = [row for row in wanted if row["step"] <= steps]
    assert made == wanted and len(made) == steps * 3 * 4
    made, wanted = (rows(f / "metrics.jsonl") for f in (folder, expected))
    assert len(made) == steps
    for line, other in zip(made, wanted, strict=False):
        assert line.keys() == other.keys()
        for key, value in other.items():
            near = value if value is None else pytest.approx(value, rel=1e-3, abs=1e-5)
            assert line[key] == near, key


def check_ended(folder: Path, expected: Path) -> None:
    check_equal(folder, expected, steps=4)
    for name in ("before", "after"):
        made, wanted = (rows(f / "evaluation" / f"{name}.jsonl") for f in (folder, expected))
        assert made == wanted and len(made) == 5
    adapters = [
        load_file(f / "checkpoints" / "step-000004" / "adapter_model.safetensors")
        for f in (folder, expected)
    ]
    for key, values in adapters[1].items():
        assert torch.allclose(adapters[0][key], values, atol=1e-3)
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in expected.iterdir())


def test_a_launched_run_plays_and_learns_as_one_process_does(
    launched: Launched, one_process: Path
) -> None:
    check_equal(launched.folder, one_process, steps=2)


def test_two_processes_resume_and_end_as_one_process_does(jobs: Path, one_process: Path) -> None:
    assert found(jobs, "resumed") == [0, 0]
    check_ended(jobs / "run", one_process)
    said = (jobs / "output.txt").read_text()
    assert said.count("held-out questions: 5") == said.count(f"run folder: {jobs / 'run'}\n") == 1


def test_one_process_goes_on_from_what_two_have_left(
    launched: Launched, one_process: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(launched.folder, tmp_path / "run"))
    assert main(["--resume", str(folder)]) == 0
    check_ended(folder, one_process)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process makes of the faulty run."""
    return alone(tmp_path_factory.mktemp("faulty"), FAULTY)


def adapter(folder: Path, step: int) -> dict[str, torch.Tensor]:
    return load_file(folder / "checkpoints" / f"step-{step:06d}" / "adapter_model.safetensors")


def test_the_guard_of_two_processes_does_what_that_of_one_does(jobs: Path, faulty: Path) -> None:
    assert found(jobs, "guarded") == [0, 0]
    folder = jobs / "guarded"
    events = runs.read_rows(folder / "events.jsonl")
    assert events == runs.read_rows(faulty / "events.jsonl")
    assert [(event["step"], event["kind"], event["restored"]) for event in events] == [
        (2, "skipped_steps", 0)
    ]
    undone, start = adapter(folder, 2), adapter(folder, 0)
    assert all(torch.equal(undone[key], value) for key, value in start.items())
    for key, value in adapter(faulty, 4).items():
        assert torch.allclose(adapter(folder, 4)[key], value, atol=1e-3)
    assert any(not torch.equal(adapter(folder, 4)[key], value) for key, value in start.items())


def test_a_signal_to_one_process_stops_all_after_the_step(jobs: Path) -> None:
    assert found(jobs, "signalled") == [1, 130]
    folder = jobs / "signalled"
    assert [line["step"] for line in rows(folder / "metrics.jsonl")] == [1, 2]
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == [
        "step-000000",
        "step-000002",
    ]
    said = (jobs / "output.txt").read_text()
    remedy = f"interrupted; go on with: python train.py --resume {folder}"
    assert said.count(f"train.py: {remedy}\n") == said.count("train.py: interrupted") == 1


@pytest.mark.parametrize(
    ("variable", "name"),
    [("ACCELERATE_USE_FSDP", "FSDP"), ("ACCELERATE_USE_DEEPSPEED", "DeepSpeed")],
)
def test_a_model_in_shards_is_refused(
    variable: str,
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, "true")
    said = runs.call(capsys, main, "--config", runs.config_file(tmp_path)).refused()
    assert said.startswith(f"accelerate: its config asks for {name}, which is not supported: ")


def test_half_a_launch_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    said = runs.call(capsys, main, "--config", runs.config_file(tmp_path)).refused()
    assert said.startswith("WORLD_SIZE is 2, but the processes cannot meet (") and "RANK" in said
    said = runs.call(capsys, eval_command.main, "--out", tmp_path / "results").refused()
    assert said == "WORLD_SIZE: evaluation is one process; start it with plain python"


def test_processes_do_not_share_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "size", lambda: 2)
    with pytest.raises(InputError, match=r"model\.device: 'cuda:1' is one device for 2 processes"):
        build_policy(ModelOptions(name="tiny", device="cuda:1"), seed=0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(InputError, match="process 1 of this machine has no GPU of its own"):
        build_policy(ModelOptions(name="tiny", device="cuda"), seed=0)


def test_alone_everything_is_trivial() -> None:
    numbers = torch.ones(2)
    assert (processes.size(), processes.rank(), processes.share(5)) == (1, 0, slice(0, 5))
    assert processes.gather(b"x") == [b"x"]
    assert processes.sums([None, numbers], [numbers, numbers]) == [None, numbers]
    with pytest.raises(InputError, match="as it was"), processes.together():
        raise InputError("as it was")


@pytest.mark.parametrize(
    ("weights", "size", "expected"),
    [
        ([], 2, [0, 0]),
        ([7], 2, [0, 1]),  # its middle is the middle of all: the second's
        ([5, 5, 5, 5], 2, [2, 2]),
        ([5, 5, 5, 5], 3, [1, 2, 1]),
        # Middles at 4.5, 10, 12 and 14 of 15; the first part ends at 7.5.
        ([9, 2, 2, 2], 2, [1, 3]),
        # Middles at 1, 3, 5 and 10.5; parts of 5 end at 5, which is already the second's, and 10.
        ([2, 2, 2, 9], 3, [2, 1, 1]),
        ([1, 1], 4, [0, 1, 0, 1]),
    ],
)
def test_a_stretch_has_its_share_of_the_weight(monkeypatch, weights, size, expected) -> None:
    monkeypatch.setattr(processes, "size", lambda: size)
    parts = []
    for rank in range(size):
        monkeypatch.setattr(processes, "rank", lambda rank=rank: rank)
        parts.append(weights[processes.stretch(weights)])
    assert [len(part) for part in parts] == expected
    assert [weight for part in parts for weight in part] == weights
