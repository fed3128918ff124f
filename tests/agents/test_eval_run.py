"""An evaluation that is killed, named by a preset, or asked in other ways."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents import eval_run
from agents.eval_command import build_parser, main
from agents.predictions import Prediction
from tests.agents import runs

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[2]
TINY = ["--agent", "tiny", "--dataset.people", "20", "--engine.max_tokens", "8"]


def evaluated(capsys: Capture, out: Path, *argv: object) -> dict[str, Any]:
    result = runs.call(capsys, main, "--out", out, *argv)
    assert result.status == 0, result.err
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return summary


def without_clock(summary: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in summary.items() if k not in ("seconds", "command")}


def test_a_killed_evaluation_goes_on_and_ends_with_the_same_summary(
    tmp_path: Path, capsys: Capture
) -> None:
    argv = [*TINY, "--limit", "24", "--engine.max_episodes", "2"]
    whole = evaluated(capsys, tmp_path / "whole", *argv)
    out = tmp_path / "killed"
    command = [sys.executable, "eval.py", *argv, "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    journal = out / "predictions.jsonl"
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL) as child:
        while child.poll() is None and not (journal.exists() and journal.stat().st_size):
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    known = len(journal.read_bytes().splitlines())
    assert 0 < known < 24 and not (out / "summary.json").exists()
    # Other settings would mix two evaluations.
    for flag in ("--limit=23", "--env.top_k=1", "--abstain=true"):
        said = runs.call(capsys, main, *argv, flag, "--out", out).refused()
        assert "holds an unfinished evaluation with other settings" in said
    again = evaluated(capsys, out, *argv)
    assert without_clock(again) == without_clock(whole)
    assert journal.read_bytes() == (tmp_path / "whole" / "predictions.jsonl").read_bytes()
    assert sorted(runs.contents(out)) == sorted(runs.contents(tmp_path / "whole"))


def test_a_preset_turns_every_knob_and_stands_in_the_result(
    tmp_path: Path, capsys: Capture
) -> None:
    # The tiny model's positions end before 500 tokens a turn do.
    argv = ["--agent", "tiny", "--dataset.people", "20", "--limit", "2", "--preset", "search_r1"]
    short = ["--engine.max_tokens", "8", "--env.max_observation_tokens", "64"]
    summary = evaluated(capsys, tmp_path / "out", *argv, *short)
    assert summary["preset"] == (
        "search_r1, but engine.max_tokens=8, env.max_observation_tokens=64"
    )
    used = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())
    knobs = yaml.safe_load((ROOT / "configs" / "presets" / "search_r1.yaml").read_text())
    changed = {("engine", "max_tokens"), ("env", "max_observation_tokens")}
    for section, keys in knobs.items():
        for key, value in keys.items():
            assert (section, key) in changed or used[section][key] == value
    assert used["env"]["max_turns"] == 5 and used["env"]["top_k"] == 3


def test_a_preset_goes_over_the_agents_own_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "checkpoints" / "step-000001").mkdir(parents=True)
    (run / "config.yaml").write_text(
        yaml.safe_dump({"model": {"name": "tiny"}, "env": {"top_k": 9}})
    )
    values, _, preset = eval_run.parse(["--agent", str(run)], build_parser())
    assert values["env"].top_k == 9 and preset is None
    # An untrained model is asked with the published prompt, an agent of a run with its own.
    assert values["prompt"].template == "search_r1"
    values, _, preset = eval_run.parse(
        ["--agent", str(run), "--preset", "search_r1"], build_parser()
    )
    assert values["env"].top_k == 3 and preset == "search_r1"


def test_an_unknown_preset_is_refused(tmp_path: Path, capsys: Capture) -> None:
    said = runs.call(capsys, main, "--preset", "nobody", "--out", tmp_path / "out").refused()
    assert said == "--preset: unknown name 'nobody'; choose one of search_r1"


def test_methods_are_chosen_by_name(tmp_path: Path, capsys: Capture) -> None:
    summary = evaluated(capsys, tmp_path / "o", *TINY, "--limit", "3", "--method.name", "scripted")
    assert summary["method"] == "scripted" and summary["searches_mean"] == 1.0
    expert = ["--method.name", "scripted", "--method.expert", "true", "--env.max_turns", "6"]
    assert evaluated(capsys, tmp_path / "e", *TINY, "--limit", "3", *expert)["em"]["mean"] == 1.0
    said = runs.call(capsys, main, *TINY, "--method.name", "sft", "--out", tmp_path / "s").refused()
    assert said.startswith("method.name: sft needs a trained agent")


FORMULARY = ["--agent", "tiny", "--engine.max_tokens", "4", "--dataset.name", "formulary"]
FORMULARY += ["--dataset.drugs", "20", "--limit", "4", "--method.name", "scripted"]


def test_options_in_several_orders(tmp_path: Path, capsys: Capture) -> None:
    summary = evaluated(capsys, tmp_path / "out", *FORMULARY, "--orders", "3")
    rows = [Prediction(**row) for row in runs.read_rows(tmp_path / "out" / "predictions.jsonl")]
    assert summary["n"] == 4 and len(rows) == 12 and summary["orders"] == 3
    assert summary["accuracy_all_orders"]["mean"] <= summary["accuracy"]["mean"]
    for row in rows:
        assert row.options is not None and row.options[row.answers[0]] == row.answers[1]
    said = runs.call(capsys, main, *TINY, "--orders", "2", "--out", tmp_path / "no").refused()
    assert said == "--orders: only questions with options can be asked in several orders"


def test_leave_to_abstain_is_given_and_counted(tmp_path: Path, capsys: Capture) -> None:
    summary = evaluated(capsys, tmp_path / "out", *FORMULARY, "--abstain", "true")
    assert summary["coverage"]["mean"] == 1.0
    assert summary["accuracy_answered"] == summary["accuracy"]
    for row in runs.read_rows(tmp_path / "out" / "predictions.jsonl"):
        assert row["question"].endswith("answer: unknown")


def test_only_questions_with_evidence(tmp_path: Path, capsys: Capture) -> None:
    files = runs.letters(tmp_path / "files")
    argv = ["--agent", "tiny", "--method.name", "scripted", "--with_evidence", "true"]
    flags = [
        "--dataset.name=jsonl",
        f"--dataset.path={files['dataset']['path']}",
        f"--retriever.corpus={files['retriever']['corpus']}",
    ]
    said = runs.call(capsys, main, *argv, *flags, "--out", tmp_path / "out").refused()
    assert said == "--with_evidence: no question of this dataset names its evidence"
    summary = evaluated(capsys, tmp_path / "world", *TINY, *argv, "--limit", "3")
    assert summary["n"] == 3 and "evidence_recall" in summary
