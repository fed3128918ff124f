"""The two commands as their users call them: other processes, every file of the run contract."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from jsonargparse import ArgumentParser
from peft import PeftModel, get_peft_model_state_dict
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agents import command_line
from agents.config import EVAL_LAYOUT, TRAIN_LAYOUT
from agents.tiny import build_tiny

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "configs" / "tiny.yaml"
STEPS, EPISODES, QUESTIONS = 8, 16, 20  # what configs/tiny.yaml says
# No critic, no normaliser, and an engine that is exactly the policy.
ABSENT = {"value_loss", "clip_norm", "sampler_mismatch", "importance_capped"}
METRICS = {"step", "reward_mean", "em", "searches_mean", "clip_fraction", "clip_norm", "grad_scale"}
METRICS |= {"grad_norm", "kl_old", "kl_ref", "entropy", "policy_loss", "value_loss", "seconds"}
METRICS |= {"invalid_rate", "generated_tokens_per_s", "trained_tokens_per_s"}


def call(command: str, *argv: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / command), *map(str, argv)],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def objects(file: Path) -> list[dict[str, Any]]:
    # Not splitlines(): a turn may hold U+2028 or U+0085, which end no line of JSON.
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smoke run, started from a folder that is not the checkout."""
    folder = tmp_path_factory.mktemp("elsewhere")
    done = call("train.py", "--config", CONFIG, "--run.dir", "runs/tiny", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert f"held-out questions: {QUESTIONS}\n" in done.stdout
    assert "report: runs/tiny/report.html\nrun folder: runs/tiny\n" in done.stdout
    assert "\r" not in done.stdout + done.stderr and "\x1b" not in done.stdout + done.stderr
    assert "Warning" not in done.stderr and "Traceback" not in done.stderr
    return folder / "runs" / "tiny"


def test_the_run_folder_holds_what_is_promised(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert names == {
        "config.yaml",
        "metrics.jsonl",
        "rollouts.jsonl",
        "tokens.jsonl",
        "report.html",
        "tensorboard",
        "checkpoints",
        "evaluation",
        "summary.json",
    }


def test_its_configuration_loads_back_equal(run: Path) -> None:
    def parse(*argv: str) -> dict[str, Any]:
        return command_line.parse(ArgumentParser(), TRAIN_LAYOUT, argv, {})[0]

    saved = parse("--config", str(run / "config.yaml"))
    assert saved == parse("--config", str(CONFIG), "--run.dir", "runs/tiny")
    assert (run / "config.yaml").read_text() == command_line.to_yaml(saved)


def test_one_line_of_metrics_a_step(run: Path) -> None:
    lines = objects(run / "metrics.jsonl")
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    for line in lines:
        assert line.keys() >= METRICS
        assert all(line[name] is None for name in ABSENT)
        assert line["grad_scale"] == 1.0 and line["infra_errors"] == 0
        assert 0 <= line["invalid_rate"] <= 1
        # Unknown where every group was of one reward, so that nothing was trained.
        assert (line["entropy"] is None) == (line["trained_tokens"] == 0)
        assert line["generated_tokens_per_s"] > 0 and line["seconds"] > 0
    assert sum(line["grad_norm"] > 0 for line in lines) > STEPS / 2


def test_every_episode_is_written_down(run: Path) -> None:
    lines = objects(run / "rollouts.jsonl")
    metrics = objects(run / "metrics.jsonl")
    assert [line["step"] for line in lines] == [
        step for step in range(1, STEPS + 1) for _ in range(EPISODES)
    ]
    # 4 questions a step, 4 episodes each; a group id is used once in a run.
    groups = [line["group_id"] for line in lines]
    assert groups == [group for group in range(4 * STEPS) for _ in range(4)]
    for step in range(1, STEPS + 1):
        rewards = [line["total_reward"] for line in lines if line["step"] == step]
        assert sum(rewards) / EPISODES == pytest.approx(metrics[step - 1]["reward_mean"])
    for line in lines:
        assert line["question"] and line["answers"] and len(line["steps"]) == line["turns"]
        assert sum(turn["reward"] for turn in line["steps"]) == line["total_reward"]


def test_tensorboard_shows_the_metrics(run: Path) -> None:
    board = EventAccumulator(str(run / "tensorboard"))
    board.Reload()
    lines = objects(run / "metrics.jsonl")
    assert set(board.Tags()["scalars"]) == lines[0].keys() - {"step"} - ABSENT
    for key in board.Tags()["scalars"]:
        for event, line in zip(board.Scalars(key), lines, strict=True):
            assert event.step == line["step"]
            known = math.nan if line[key] is None else line[key]
            assert event.value == pytest.approx(known, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("step", [0, 4, 8])
def test_peft_opens_the_checkpoints(run: Path, step: int) -> None:
    folder = run / "checkpoints" / f"step-{step:06d}"
    base, tokenizer = build_tiny()
    ids = torch.tensor([tokenizer.encode("In which region is the birthplace of a person?")])
    plain = base(input_ids=ids).logits
    model = PeftModel.from_pretrained(base, folder)
    loaded = get_peft_model_state_dict(model)
    saved = load_file(folder / "adapter_model.safetensors")
    assert loaded.keys() == saved.keys()
    assert all(torch.equal(loaded[key], saved[key]) for key in saved)
    # After the warm start the adapter is not the one that changes nothing.
    assert not torch.equal(model(input_ids=ids).logits, plain)
    assert json.loads((folder / "state.json").read_text())["step"] == step


def test_the_checkpoints_are_those_asked_for(run: Path) -> None:
    names = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert names == ["step-000000", "step-000004", "step-000008"]


def test_the_summary_compares_before_and_after(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    before, after = (objects(run / "evaluation" / f"{when}.jsonl") for when in ("before", "after"))
    assert summary["n"] == len(before) == len(after) == QUESTIONS
    gained = [a["metrics"]["em"] - b["metrics"]["em"] for a, b in zip(after, before, strict=True)]
    assert summary["difference"].keys() == {"mean", "low", "high"}
    assert summary["difference"]["mean"] == pytest.approx(sum(gained) / QUESTIONS)
    assert summary["difference"]["low"] <= summary["difference"]["mean"]
    assert summary["em_after"] - summary["em_before"] == pytest.approx(sum(gained) / QUESTIONS)
    assert summary["seconds"] > 0
    assert summary["command"] == f"python train.py --config {CONFIG} --run.dir runs/tiny"


def test_the_agent_is_evaluated(run: Path) -> None:
    home = run.parents[1]
    argv = ["--agent", "runs/tiny", "--dataset.split", "test", "--limit", 20, "--out", "results/x"]
    done = call("eval.py", *argv, cwd=home)
    assert done.returncode == 0, done.stderr
    assert "results: results/x (report.html shows every episode)\n" in done.stdout
    assert "Traceback" not in done.stderr
    out = home / "results" / "x"
    assert {path.name for path in out.iterdir()} == {
        "summary.json",
        "predictions.jsonl",
        "report.html",
        "config.yaml",
    }
    summary = json.loads((out / "summary.json").read_text())
    assert summary.keys() >= {"n", "em", "f1", "searches_mean", "tokens_mean", "seconds"}
    assert summary.keys() >= {"corpus_fingerprint", "retriever", "preset", "seed", "command"}
    for metric in ("em", "f1"):
        assert summary[metric].keys() == {"mean", "low", "high"}
    # The same questions, environment and adapter as the run's own evaluation afterwards.
    own = objects(run / "evaluation" / "after.jsonl")
    assert objects(out / "predictions.jsonl") == own
    values, _ = command_line.parse(
        ArgumentParser(), EVAL_LAYOUT, ["--config", str(out / "config.yaml")], {}
    )
    assert values["model"].adapter == "runs/tiny/checkpoints/step-000008"


REFUSED = [
    # Found only once the model is loaded, which must not add lines of its own.
    ("train.py", ["--config", CONFIG, "--run.dir", "new", "--env.reward", "{nope: 1}"]),
    ("eval.py", ["--agent", "./nowhere/at/all", "--out", "new"]),
]


@pytest.mark.parametrize(("command", "argv"), REFUSED)
def test_bad_input_is_status_2_and_one_line(
    command: str, argv: list[object], tmp_path: Path
) -> None:
    done = call(command, *argv, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"{command}: error: ")
    assert done.stderr.count("\n") == 1 and done.stderr.endswith("\n")
    assert list(tmp_path.iterdir()) == []
