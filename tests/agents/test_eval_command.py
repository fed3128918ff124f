"""eval.py: an agent's own run supplies the defaults; files, repeatability, refusals, statuses."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonargparse import ArgumentParser
from peft import get_peft_model_state_dict

from agents import command_line
from agents.assembly import build_policy
from agents.config import EVAL_LAYOUT
from agents.eval_command import main
from agents.eval_run import agent_defaults
from agents.evaluation import summarize
from agents.predictions import Prediction
from agents.train_command import main as train
from retrieval.corpus import read_corpus
from tests.agents import runs

Capture = pytest.CaptureFixture[str]
CLOCK = {"seconds", "command"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 4 steps with checkpoints at 0, 2 and 4; read only."""
    folder = tmp_path_factory.mktemp("trained")
    file = runs.config_file(folder, evaluation={"questions": 0})
    assert train(["--config", str(file), "--run.dir", str(folder / "run")]) == 0
    return folder / "run"


def evaluated(capsys: Capture, out: Path, *argv: object) -> dict[str, Any]:
    """The summary of a good evaluation, whose files are checked against each other."""
    result = runs.call(capsys, main, "--out", out, *argv)
    assert result.status == 0, result.err
    assert result.out.splitlines()[-1] == f"results: {out} (report.html shows every episode)"
    files = ["config.yaml", "predictions.jsonl", "report.html", "summary.json"]
    assert sorted(runs.contents(out)) == files
    summary = json.loads((out / "summary.json").read_text())
    predictions = [Prediction(**row) for row in runs.read_rows(out / "predictions.jsonl")]
    assert summarize(predictions) == {k: summary[k] for k in summarize(predictions)}
    assert f"questions: {summary['n']}  infra errors: 0" in result.out
    # The resolved configuration loads back: the same evaluation could be asked for again.
    argv = ["--config", str(out / "config.yaml")]
    values, _ = command_line.parse(ArgumentParser(), EVAL_LAYOUT, argv, {})
    assert command_line.to_yaml(values) == (out / "config.yaml").read_text()
    return summary


def test_a_run_is_evaluated_as_it_was_trained(
    trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "deep" / "results"
    summary = evaluated(capsys, out, "--agent", trained, "--limit", "3")
    assert summary["n"] == 3
    assert set(summary["em"]) == set(summary["f1"]) == {"mean", "low", "high"}
    assert summary["corpus_fingerprint"].startswith("sha256:")
    assert (summary["retriever"], summary["preset"], summary["seed"]) == ("bm25s", None, 0)
    assert summary["agent"] == str(trained) and summary["seconds"] >= 0
    assert summary["command"].startswith(f"python eval.py --out {out} --agent {trained} --limit 3")
    own = yaml.safe_load((trained / "config.yaml").read_text())
    used = yaml.safe_load((out / "config.yaml").read_text())
    newest = str(trained / "checkpoints" / "step-000004")
    assert used.pop("model") == {**own["model"], "adapter": newest}
    assert used.pop("method") == {"name": "search_r1"}
    assert used == {section: own[section] for section in used}


def test_the_same_evaluation_gives_the_same_files(
    trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    argv = ["--agent", trained, "--limit", "5", "--dataset.split", "test"]
    one, two = (evaluated(capsys, tmp_path / name, *argv) for name in ("one", "two"))
    few = evaluated(capsys, tmp_path / "few", *argv, "--engine.max_episodes", "2")
    for other in (two, few):
        assert {k: v for k, v in other.items() if k not in CLOCK} == {
            k: v for k, v in one.items() if k not in CLOCK
        }
    files = [(tmp_path / n / "predictions.jsonl").read_bytes() for n in ("one", "two", "few")]
    # T21: nor does it matter how many are played side by side.
    assert files[0] == files[1] == files[2]


def test_a_checkpoint_is_an_agent_too(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    for step in (0, 2, 4):
        folder = trained / "checkpoints" / f"step-00000{step}"
        evaluated(capsys, tmp_path / str(step), "--agent", f"{folder}/", "--limit", "2")
        used = yaml.safe_load((tmp_path / str(step) / "config.yaml").read_text())
        assert used["model"]["adapter"] == str(folder)
    newest, named = (
        yaml.safe_load(command_line.to_yaml(defaulted(agent)))
        for agent in (trained, trained / "checkpoints" / "step-000004")
    )
    assert newest == named


def defaulted(agent: Path) -> dict[str, Any]:
    return command_line.parse(ArgumentParser(), EVAL_LAYOUT, [], agent_defaults(str(agent)))[0]


def test_the_agents_own_adapter_is_loaded(trained: Path) -> None:
    adapters = {}
    for step in (2, 4):
        values = defaulted(trained / "checkpoints" / f"step-00000{step}")
        adapters[step] = get_peft_model_state_dict(build_policy(values["model"], 0).model)
    key = next(iter(adapters[2]))
    assert not (adapters[2][key] == adapters[4][key]).all()


def test_other_questions_and_another_corpus(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    files = runs.letters(tmp_path / "files")
    flags = [
        "--dataset.name=jsonl",
        f"--dataset.path={files['dataset']['path']}",
        f"--retriever.corpus={files['retriever']['corpus']}",
        "--retriever.name=rank_bm25",
        "--env.top_k=1",
    ]
    summary = evaluated(capsys, tmp_path / "out", "--agent", trained, *flags)
    assert summary["n"] == 12 and summary["retriever"] == "rank_bm25"
    assert summary["corpus_fingerprint"] == (
        read_corpus(files["retriever"]["corpus"], progress=False).fingerprint
    )
    used = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())
    assert used["dataset"] == {
        "name": "jsonl",
        "path": files["dataset"]["path"],
        "split": "all",
        "test_share": 0.2,
        "limit": None,
        "subset_seed": None,
        "rules": [],
    }
    assert used["engine"]["max_tokens"] == 8 and used["env"]["top_k"] == 1


def test_an_untrained_model_is_an_agent_with_our_defaults(tmp_path: Path, capsys: Capture) -> None:
    argv = ["--agent", "tiny", "--limit", "1", "--dataset.people", "20", "--engine.max_tokens", "4"]
    summary = evaluated(capsys, tmp_path / "out", *argv)
    assert summary["n"] == 1 and summary["agent"] == "tiny"
    used = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())
    assert used["model"]["name"] == "tiny" and used["model"]["adapter"] is None


def test_options_are_scored_by_accuracy(tmp_path: Path, capsys: Capture) -> None:
    argv = ["--agent", "tiny", "--limit", "2", "--engine.max_tokens", "4", "--env.max_turns", "1"]
    flags = ["--dataset.name", "formulary", "--dataset.drugs", "20"]
    summary = evaluated(capsys, tmp_path / "out", *argv, *flags)
    assert "accuracy" in summary and "em" not in summary


def refusal(capsys: Capture, folder: Path, *argv: object) -> str:
    before = sorted(folder.rglob("*"))
    said = runs.call(capsys, main, *argv).refused()
    assert sorted(folder.rglob("*")) == before
    return said


def test_an_agent_that_is_none_is_refused(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    out = ["--out", tmp_path / "out"]
    for name in (tmp_path / "nowhere", trained / "checkpoints" / "step-000003"):
        assert refusal(capsys, tmp_path, *out, "--agent", name) == (
            f"--agent {name}: no such folder; give a run, one of its checkpoints, or a model"
        )
    said = refusal(capsys, tmp_path, *out, "--agent", "nowhere")
    assert said.startswith("model.name: no folder 'nowhere'; give a folder with config.json")
    said = refusal(capsys, tmp_path, *out, "--agent", tmp_path)
    assert said.startswith(f"model.name: folder '{tmp_path}' holds no config.json")
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(trained / "config.yaml", bare)
    assert refusal(capsys, tmp_path, *out, "--agent", bare) == (
        f"--agent {bare}: this run has no checkpoint yet; go on training it"
    )


def test_an_adapter_of_another_model_is_refused(
    trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    argv = ["--agent", run, "--out", tmp_path / "out"]
    assert "other LoRA options" in refusal(capsys, tmp_path, *argv, "--model.lora_rank", "2")
    state = run / "checkpoints" / "step-000004" / "state.json"
    content = json.loads(state.read_text()) | {"base_fingerprint": "sha256:0", "base_model": "big"}
    state.write_text(json.dumps(content))
    said = refusal(capsys, tmp_path, *argv)
    assert "was trained on another base model ('big'); set model.name to that one" in said


EDITED = {
    "model: 3\n": "section 'model' is 3; give it keys, or leave it out",
    "dataset: atlas\n": "section 'dataset' is 'atlas'; give it keys, or leave it out",
    "model: {name: tiny}\nenv: {topk: 3}\n": "env.topk: unknown key. Did you mean env.top_k?",
    "model: {name: tiny}\nenv: {top_k: x}\n": "env.top_k is x; give a value of type int",
    "model: {name: tiny}\nenv: {top_k: 0}\n": "env.top_k is 0; give at least 1",
    "run: {steps: 1}\nmodel: {nam: tiny}\n": "model.nam: unknown key. Did you mean model.name?",
    "model: [\n": "is not valid YAML",
}


@pytest.mark.parametrize(("text", "message"), EDITED.items())
def test_a_runs_configuration_that_was_edited_is_read_strictly(
    text: str, message: str, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "run" / "checkpoints" / "step-000001").mkdir(parents=True)
    (tmp_path / "run" / "config.yaml").write_text(text)
    argv = ["--agent", tmp_path / "run", "--out", tmp_path / "out"]
    assert message in refusal(capsys, tmp_path, *argv)


def test_flags_that_make_no_sense_are_refused(tmp_path: Path, capsys: Capture) -> None:
    out = ["--out", tmp_path / "out", "--agent", "tiny"]
    for flag, message in {
        "--limit=0": "--limit: 0 is too few; give at least 1",
        "--limit=-3": "--limit: -3 is too few; give at least 1",
        "--limit=x": "limit is x; give a value of type int or null",
        "--optimizer.lr=1": "optimizer.lr: unknown key. Valid keys at the top level: abstain, ",
        "--agnet=x": "agnet: unknown key. Did you mean agent? Valid keys at the top level: abstain",
    }.items():
        assert refusal(capsys, tmp_path, *out, flag).startswith(message)
    file = tmp_path / "agent.yaml"
    file.write_text("agent: tiny\n")
    assert refusal(capsys, tmp_path, "--config", file, "--out", tmp_path / "out") == (
        "agent: give --agent on the command line, not in a file"
    )


def test_results_are_not_written_over(tmp_path: Path, capsys: Capture) -> None:
    full, file, empty = tmp_path / "full", tmp_path / "file", tmp_path / "empty"
    for folder in (full, empty):
        folder.mkdir()
    (full / "precious").write_text("!")
    file.write_text("!")
    assert refusal(capsys, tmp_path, "--agent=tiny", "--out", full) == (
        f"--out: {full} exists and is not empty; choose another folder"
    )
    for folder in (file, file / "sub"):
        said = refusal(capsys, tmp_path, "--agent=tiny", "--out", folder)
        assert said.startswith(f"--out: {folder} cannot be made: {file} is not a folder")
    argv = ["--agent", "tiny", "--limit=1", "--dataset.people=20", "--engine.max_tokens=2"]
    assert evaluated(capsys, empty, *argv)["n"] == 1
    said = runs.call(capsys, main, *argv, "--out", "/proc/results")
    assert said.status == 2
    assert "--out: cannot write /proc/results: " in said.err.splitlines()[-1]


def test_failure_and_interruption_have_their_own_status(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    sections = runs.plug_ins(tmp_path)
    argv = ["--agent", trained, "--limit=3", "--engine.name", sections["engine"]["name"]]
    found = evaluated(capsys, tmp_path / "searches", *argv)
    assert (found["searches_mean"], found["answered_rate"]) == (1.0, 0.0)

    down = ["--retriever.name", sections["retriever"]["name"], "--out", tmp_path / "down"]
    failed = runs.call(capsys, main, *argv, *down)
    assert failed.status == 1
    assert failed.err.splitlines()[-1].endswith("eval.py: retrieval failed in every episode")
    # Counted and written down, but in no average.
    summary = json.loads((tmp_path / "down" / "summary.json").read_text())
    assert (summary["n"], summary["infra_errors"]) == (0, 3) and "em" not in summary

    dead = ["--retriever.name=tests.retrieval.moody", "--retriever.at_build=exit"]
    argv_ = [*argv, *dead, "--retriever.isolate=true", "--out", tmp_path / "dead"]
    died = runs.call(capsys, main, *argv_)
    assert died.status == 1 and not (tmp_path / "dead").exists()
    assert died.err.splitlines()[-1].startswith(
        "eval.py: retrieval failed: tests.retrieval.moody: its process ended with exit code 9"
    )

    out = tmp_path / "interrupted"
    stopped = runs.call(capsys, main, *argv, "--engine.interrupt=true", "--out", out)
    assert stopped.status == 130
    assert stopped.err.splitlines()[-1].endswith(
        "eval.py: interrupted; the same command goes on where it was"
    )
    assert sorted(runs.contents(out)) == ["config.yaml", "predictions.jsonl", "unfinished.json"]
