"""T13: a run that was killed anywhere ends as the uninterrupted one, bit for bit."""

import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from agents.train_command import main
from tests.agents import runs
from tests.agents.equal_runs import check_equal, rows, scalars


def run(folder: Path, *argv: str, **changes: Any) -> Path:
    file = runs.config_file(folder, **changes)
    assert main(["--config", str(file), "--run.dir", str(folder / "run"), *argv]) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4 steps, with checkpoints at 0, 2 and 4, and evaluation; for copying only."""
    return run(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def check_same(folder: Path, expected: Path) -> None:
    check_equal(folder, expected)
    assert scalars(folder) == scalars(expected)


def test_the_run_does_something_that_could_differ(finished: Path) -> None:
    lines = rows(finished / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert all(line["grad_norm"] > 0 and line["kl_ref"] > 0 for line in lines)
    assert len({line["reward_mean"] for line in lines}) == 4
    adapters = [
        load_file(finished / "checkpoints" / f"step-00000{step}" / "adapter_model.safetensors")
        for step in (0, 2, 4)
    ]
    assert len(load_file(finished / LAST / "optimizer.safetensors")) == 3 * len(adapters[0])
    for one, other in pairwise(adapters):
        assert not any((one[key] == other[key]).all() for key in one)


def drop(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


ENDED = ("summary.json", "evaluation/after.jsonl")
LAST = "checkpoints/step-000004"


def cut(file: Path, after: bytes) -> None:
    """Leave what a killed process had written: up to `after` in the last line, and no further."""
    content = file.read_bytes()
    file.write_bytes(content[: content.rindex(after) + len(after)])


def in_step_4(folder: Path) -> None:
    drop(folder, *ENDED, LAST)
    cut(folder / "metrics.jsonl", b'"policy_loss": ')


def while_writing_a_transcript(folder: Path) -> None:
    drop(folder, *ENDED, LAST)
    cut(folder / "metrics.jsonl", b'{"step": 4')
    # In the middle of a character of several bytes.
    file = folder / "rollouts.jsonl"
    file.write_bytes(file.read_bytes().rstrip()[:-2] + "é".encode()[:1])


def before_the_checkpoint(folder: Path) -> None:
    drop(folder, *ENDED, LAST)


def in_the_checkpoint(folder: Path) -> None:
    drop(folder, *ENDED)
    scratch = (folder / LAST).rename(folder / "checkpoints" / "writing-abc")
    (scratch / "state.json").unlink()


def before_the_evaluation(folder: Path) -> None:
    drop(folder, *ENDED)


def in_the_evaluation(folder: Path) -> None:
    drop(folder, "summary.json")
    whole = folder / "evaluation" / "after.jsonl"
    whole.with_name(".after.jsonl.writing").write_bytes(whole.read_bytes()[:99])
    whole.unlink()


def before_the_first_step(folder: Path) -> None:
    drop(folder, *ENDED, LAST, "checkpoints/step-000002", "evaluation/before.jsonl")
    drop(folder, "metrics.jsonl", "rollouts.jsonl", "tensorboard")


def in_the_warm_start(folder: Path) -> None:
    before_the_first_step(folder)
    drop(folder, "checkpoints", "evaluation")


KILLED = [
    in_step_4,
    while_writing_a_transcript,
    before_the_checkpoint,
    in_the_checkpoint,
    before_the_evaluation,
    in_the_evaluation,
    before_the_first_step,
    in_the_warm_start,
]


@pytest.mark.parametrize("killed", KILLED)
def test_a_killed_run_goes_on_as_if_nothing_had_happened(
    killed: Callable[[Path], None], copied: Path, finished: Path
) -> None:
    killed(copied)
    assert main(["--resume", str(copied)]) == 0
    check_same(copied, finished)


def test_resuming_a_finished_run_changes_nothing(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = runs.contents(finished)
    result = runs.call(capsys, main, "--resume", finished)
    assert result.status == 0
    assert "held-out questions: 4\n" in result.out and f"run folder: {finished}\n" in result.out
    assert runs.contents(finished) == before


def test_what_was_evaluated_before_is_read_not_played_again(copied: Path) -> None:
    drop(copied, *ENDED)
    file = copied / "evaluation" / "before.jsonl"
    assert file.read_text().count('"em": 0.0') == 4
    file.write_text(file.read_text().replace('"em": 0.0', '"em": 1.0'))
    assert main(["--resume", str(copied)]) == 0
    summary = json.loads((copied / "summary.json").read_text())
    assert (summary["em_before"], summary["em_after"]) == (1.0, 0.0)
    assert summary["difference"] == {"mean": -1.0, "low": -1.0, "high": -1.0}
    assert summary["command"] == f"python train.py --resume {copied}"


def test_a_longer_run_is_the_run_that_was_longer_from_the_start(
    copied: Path, tmp_path: Path
) -> None:
    straight = run(tmp_path / "straight", "--run.steps=6")
    assert main(["--resume", str(copied), "--run.steps=6"]) == 0
    check_same(copied, straight)


REFUSED = {
    ("--model.lora_rank=2",): "the adapter has other LoRA options than the model section",
    ("--evaluation.questions=3",): "evaluation: the run has not been evaluated on these questions",
    ("--dataset.seed=1",): "evaluation: the run has not been evaluated on these questions",
    ("--dataset.people=3",): "atlas: people 3 is too few; give at least 20",
    ("--run.stepss=9",): "run.stepss: unknown key. Did you mean run.steps?",
    ("--rollout.group_size=0",): "rollout.group_size is 0; give at least 1",
}


@pytest.mark.parametrize(("flags", "message"), REFUSED.items())
def test_a_resume_that_does_not_fit_touches_nothing(
    flags: tuple[str, ...], message: str, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = runs.contents(finished)
    assert message in runs.call(capsys, main, "--resume", finished, *flags).refused()
    assert runs.contents(finished) == before


def test_a_policy_that_has_been_trained_is_not_evaluated_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(tmp_path, "--evaluation.questions=0", "--run.steps=1")
    refused = runs.call(capsys, main, "--resume", folder, "--evaluation.questions=4").refused()
    assert refused.startswith(
        "evaluation: the run has not been evaluated on these questions before"
    )


def test_a_damaged_checkpoint_is_named(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = copied / LAST / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    before = runs.contents(copied)
    assert str(file) in runs.call(capsys, main, "--resume", copied).refused()
    assert runs.contents(copied) == before
    drop(copied, LAST)  # as the message says: an older one
    assert main(["--resume", str(copied)]) == 0


def test_there_must_be_a_run_to_go_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert runs.call(capsys, main, "--resume", folder).refused() == (
            f"--resume {folder}: no config.yaml there; give a run's folder"
        )
    assert "expected one argument" in runs.call(capsys, main, "--resume").refused()
    file = tmp_path / "c.yaml"
    file.write_text("resume: runs/x\n")
    assert runs.call(capsys, main, "--config", file).refused() == (
        "resume: give --resume on the command line, not in a file"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]


def test_plain_sgd_has_no_state_and_resumes(tmp_path: Path) -> None:
    wanted = run(tmp_path / "whole", optimizer={"name": "sgd", "lr": 0.5})
    cut_short = Path(shutil.copytree(wanted, tmp_path / "cut"))
    in_step_4(cut_short)
    assert main(["--resume", str(cut_short)]) == 0
    adapters = [
        load_file(folder / LAST / "adapter_model.safetensors") for folder in (wanted, cut_short)
    ]
    assert all((adapters[0][key] == adapters[1][key]).all() for key in adapters[0])
    assert load_file(wanted / LAST / "optimizer.safetensors") == {}
    assert rows(cut_short / "metrics.jsonl") == rows(wanted / "metrics.jsonl")


def test_a_run_whose_updates_take_states_from_sampling_goes_on(tmp_path: Path) -> None:
    """Sampling and update of a step are both done again, or neither is."""
    wanted = run(tmp_path / "whole", model={"lora_last_layers": 1})
    cut_short = Path(shutil.copytree(wanted, tmp_path / "cut"))
    in_step_4(cut_short)
    assert main(["--resume", str(cut_short)]) == 0
    check_same(cut_short, wanted)
