"""The loop: signals during play and during an update, what is saved then, what is kept."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from agents.train_command import main
from tests.agents import runs
from tests.agents.equal_runs import check_last_checkpoint, rows

Capture = pytest.CaptureFixture[str]
FAULTY = "tests.agents.faulty_grpo"
ENGINE = "tests.agents.interrupting_engine"


def changes(**algorithm: Any) -> dict[str, Any]:
    """4 steps of two groups each, saved at the end only; VADE's counts must survive too."""
    return {
        "run": {"steps": 4, "save_every": 100},
        "sampling": {"name": "vade", "success": 0.2},
        "warm_start": {"steps": 0},
        "evaluation": {"questions": 0},
        "algorithm": {"name": FAULTY, **algorithm},
    }


def run(folder: Path, capsys: Capture, *argv: str, **sections: Any) -> tuple[Path, runs.Result]:
    file = runs.config_file(folder, **sections)
    result = runs.call(capsys, main, "--config", file, "--run.dir", folder / "run", *argv)
    return folder / "run", result


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    file = runs.config_file(folder, **changes())
    assert main(["--config", str(file), "--run.dir", str(folder / "run")]) == 0
    return folder / "run"


def saved(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def check_goes_on(folder: Path, whole: Path, *argv: str) -> None:
    assert main(["--resume", str(folder), *argv]) == 0
    assert rows(folder / "metrics.jsonl") == rows(whole / "metrics.jsonl")
    assert rows(folder / "rollouts.jsonl") == rows(whole / "rollouts.jsonl")
    check_last_checkpoint(folder, whole)


@pytest.mark.parametrize(("kind", "status"), [("interrupt", 130), ("terminate", 143)])
def test_an_update_is_finished_saved_and_gone_on_with(
    kind: str, status: int, whole: Path, tmp_path: Path, capsys: Capture
) -> None:
    """The signal comes in the update of step 3, whose groups are 4 and 5."""
    folder, result = run(tmp_path, capsys, **changes(**{kind: [4]}))
    assert result.status == status
    assert result.err.splitlines()[-1] == (
        f"train.py: interrupted; go on with: python train.py --resume {folder}"
    )
    assert [line["step"] for line in rows(folder / "metrics.jsonl")] == [1, 2, 3]
    assert saved(folder) == ["step-000000", "step-000003"]
    check_goes_on(folder, whole)


def test_play_is_abandoned_and_the_last_step_saved(
    whole: Path, tmp_path: Path, capsys: Capture
) -> None:
    engine = {"name": ENGINE, "max_tokens": 8, "at": 3}
    folder, result = run(tmp_path, capsys, **changes(), engine=engine)
    assert result.status == 130
    assert [line["step"] for line in rows(folder / "metrics.jsonl")] == [1, 2]
    assert saved(folder) == ["step-000000", "step-000002"]
    # The sampler's state is that from before the play that was abandoned.
    check_goes_on(folder, whole)


def test_the_second_signal_ends_the_update_and_saves_nothing(
    whole: Path, tmp_path: Path, capsys: Capture
) -> None:
    folder, result = run(tmp_path, capsys, **changes(interrupt=[4], terminate=[5]))
    assert result.status in (130, 143)  # whichever group comes first
    assert [line["step"] for line in rows(folder / "metrics.jsonl")] == [1, 2]
    assert saved(folder) == ["step-000000"]
    check_goes_on(folder, whole, "--algorithm.interrupt=[]", "--algorithm.terminate=[]")


MORTAL = "tests.agents.mortal_bm25"
DIED = f"{MORTAL}: its process ended with exit code -9; the next search starts another"


def mortal(at: int) -> dict[str, Any]:
    return {
        **changes(),
        "engine": {"name": "tests.agents.searching_engine", "max_tokens": 24},
        "retriever": {"name": MORTAL, "isolate": True, "at": at},
    }


def test_a_worker_that_dies_costs_its_episodes_and_says_how(
    tmp_path: Path, capsys: Capture
) -> None:
    """Each process dies of its fifth search: of step 5's batch, then of an episode's own one.

    A batch that fails is asked again, episode by episode: four find the next process alive.
    """
    folder, result = run(tmp_path, capsys, "--run.steps=5", **mortal(5))
    assert result.status == 0, result.err
    lines = rows(folder / "metrics.jsonl")
    assert [line["infra_errors"] for line in lines] == [0, 0, 0, 0, 1]
    assert [line["trained_episodes"] for line in lines] == [8, 8, 8, 8, 7]
    assert f"  1 episodes lost to retrieval: {DIED}" in result.out.splitlines()


@pytest.mark.slow
def test_a_worker_that_always_dies_ends_the_run_with_its_cause(
    tmp_path: Path, capsys: Capture
) -> None:
    folder, result = run(tmp_path, capsys, **mortal(1))
    assert result.status == 1
    assert result.err.splitlines()[-1] == (
        "train.py: retrieval failed: step 1: retrieval failed in every episode; check the "
        f"retriever: {MORTAL}: its process died 3 times in a row; restart the program, or run "
        "without retriever.isolate to see why"
    )
    assert saved(folder) == ["step-000000"]


def test_checkpoints_are_kept_as_told(tmp_path: Path, capsys: Capture) -> None:
    kept = ["--run.save_every=1", "--run.keep_checkpoints=1", "--guard.window=2"]
    folder, result = run(tmp_path, capsys, *kept, **changes())
    assert result.status == 0
    # The newest; the good one, 1 since step 3; its candidate, 3, saved right after that.
    assert saved(folder) == ["step-000001", "step-000003", "step-000004"]
    shutil.rmtree(folder)
    folder, result = run(tmp_path, capsys, *kept, "--guard.enabled=false", **changes())
    assert saved(folder) == ["step-000004"]
    shutil.rmtree(folder)
    folder, result = run(tmp_path, capsys, "--run.save_every=1", **changes())
    assert saved(folder) == [f"step-00000{step}" for step in range(5)]
