"""train.py from the outside: refusals in one line with nothing written, and exit statuses."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.models import load_base
from agents.train_command import main
from retrieval import plugins
from tests.agents import runs

Capture = pytest.CaptureFixture[str]


def refusal(capsys: Capture, folder: Path, *argv: str, **changes: Any) -> str:
    """What the command says; it must leave the folder as it was."""
    file = runs.config_file(folder, **changes)
    before = runs.contents(folder)
    paths = sorted(folder.rglob("*"))
    result = runs.call(
        capsys, main, "--config", file, "--run.dir", folder / "new" / "run", *argv
    ).refused()
    assert runs.contents(folder) == before and sorted(folder.rglob("*")) == paths
    return result


FLAGS = {
    "--run.dirr=x": "run.dirr: unknown key. Did you mean run.dir? Valid keys: run.dir, ",
    "--bogus=x": "bogus: unknown key. Valid keys at the top level: algorithm, dataset, ",
    "--bogus.key=x": "bogus.key: unknown key. Valid keys at the top level: algorithm, dataset, ",
    "--run.steps=x": "run.steps is x; give a value of type int",
    "--config=nowhere.yaml": "config: cannot read nowhere.yaml: No such file or directory; check",
    "--dataset.name=nope": "datasets: unknown name 'nope'; choose one of 2wikimultihopqa, ",
    "--retriever.name=nope": "retrievers: unknown name 'nope'; choose one of bm25s, ",
    "--engine.name=nope": "generation: unknown name 'nope'; choose one of hf, openai",
    "--engine.name=openai": "engine.name: openai gives text only and cannot train; use hf",
    "--algorithm.name=nope": "algorithms: unknown name 'nope'; choose one of bapo, cispo",
    "--env.reward={nope: 1}": "rewards: unknown name 'nope'; choose one of choice, evidence, ",
    "--env.reward={f1: .nan}": "rewards: the weight of 'f1' is nan; give a finite number",
    "--env.reward={}": "rewards: no term given; name at least one, e.g. {'exact_match': 1.0}",
    "--prompt.template=nope": "prompt.template: unknown name 'nope'; choose one of minimal, ",
    "--prompt.framing=nope": "prompt.framing: unknown name 'nope'; choose one of inline, chat",
    "--model.name=nowhere/at/all": "model.name: no folder 'nowhere/at/all'; give a folder",
    "--model.dtype=int8": "model.dtype: unknown 'int8'; choose one of ",
    "--dataset.split=dev": "atlas: split 'dev' is none of train, test, all; choose one",
    "--evaluation.split=dev": "atlas: split 'dev' is none of train, test, all; choose one",
    "--evaluation.split=train": "evaluation.split: ",
    "--rollout.group_size=0": "rollout.group_size is 0; give at least 1",
    "--env.max_context_tokens=90": "env.max_context_tokens is 90, of which prompt and chat ",
}


@pytest.mark.parametrize(("flag", "message"), FLAGS.items())
def test_bad_input_is_refused_in_one_line_with_nothing_written(
    flag: str, message: str, tmp_path: Path, capsys: Capture
) -> None:
    assert refusal(capsys, tmp_path, flag).startswith(message)


def row(**changes: Any) -> dict[str, Any]:
    return {"id": "q", "question": "Why?", "answers": ["so"], **changes}


QUESTION_FILES = {
    "two of an id": ([row(), row()], "line 2: id 'q' occurs twice; ids must be unique"),
    "no answers": ([row(answers=[])], "line 1: no answers, or an empty one: every question needs"),
    "no answer field": ([{"id": "q", "question": "Why?"}], "line 1: "),
    "empty": ([], "no questions; the file is empty"),
}


@pytest.mark.parametrize(("rows", "message"), QUESTION_FILES.values(), ids=QUESTION_FILES)
def test_a_bad_question_file_is_named(
    rows: list[dict[str, Any]], message: str, tmp_path: Path, capsys: Capture
) -> None:
    sections = runs.letters(tmp_path)
    file = runs.write_rows(tmp_path / "bad.jsonl", rows)
    said = refusal(capsys, tmp_path, f"--dataset.path={file}", **sections)
    assert said.startswith(f"{file}: {message}")


def test_a_missing_question_file_is_named(tmp_path: Path, capsys: Capture) -> None:
    sections = runs.letters(tmp_path)
    said = refusal(capsys, tmp_path, "--dataset.path=nowhere.jsonl", **sections)
    assert said == "nowhere.jsonl: no such file"


def passage(number: int) -> dict[str, str]:
    return {"id": f"p{number}", "title": "T", "text": f"text {number}"}


def test_a_bad_corpus_is_named(tmp_path: Path, capsys: Capture) -> None:
    sections = runs.letters(tmp_path)
    twice = runs.write_rows(tmp_path / "twice.jsonl", [passage(1), passage(2), passage(1)])
    empty = runs.write_rows(tmp_path / "empty.jsonl", [])
    whole = gzip.compress("".join(json.dumps(passage(i)) + "\n" for i in range(500)).encode())
    truncated = tmp_path / "truncated.jsonl.gz"
    truncated.write_bytes(whole[: len(whole) // 2])
    for file, message in {
        twice: "line 3: id 'p1' stands at line 1 already; ids must be unique",
        empty: "no passages; the file is empty",
        truncated: "truncated or corrupt gzip after line ",
        tmp_path / "nowhere.jsonl": "no such file",
    }.items():
        said = refusal(capsys, tmp_path, f"--retriever.corpus={file}", **sections)
        assert said.startswith(f"{file}: {message}")
    assert refusal(capsys, tmp_path, "--retriever.corpus=null", **sections) == (
        "retriever.corpus: this dataset brings no passages; give --retriever.corpus FILE"
    )


def test_a_corpus_smaller_than_k_gives_what_it_has(tmp_path: Path, capsys: Capture) -> None:
    file = runs.config_file(tmp_path, **runs.letters(tmp_path))  # 3 passages
    argv = ["--run.dir", tmp_path / "run", "--env.top_k=50", "--run.steps=1"]
    assert runs.call(capsys, main, "--config", file, *argv).status == 0


def test_a_model_folder_without_weights_is_refused(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "model"
    base, tokenizer = load_base("tiny", torch.float32, torch.device("cpu"))
    base.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    assert refusal(capsys, tmp_path, f"--model.name={folder}") == (
        f"model.name: folder '{folder}' holds no *.safetensors; give a folder that "
        "save_pretrained wrote"
    )


def test_a_run_folder_that_exists_is_kept(tmp_path: Path, capsys: Capture) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "precious").write_text("!")
    assert refusal(capsys, tmp_path, f"--run.dir={taken}") == (
        f"run.dir: {taken} exists; go on with --resume {taken}, give another --run.dir, or move it "
        "aside with --overwrite"
    )


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_text("!")
    for name in ("file", "file/run"):
        said = refusal(capsys, tmp_path, f"--run.dir={tmp_path / name}", "--overwrite")
        assert said.startswith(f"run.dir: {tmp_path / name} cannot be made: {tmp_path / 'file'} is")
    # Only the attempt shows that the kernel keeps this folder for itself.
    assert refusal(capsys, tmp_path, "--run.dir=/proc/run").startswith("run.dir: cannot write /pro")
    assert refusal(capsys, tmp_path, "--run.dir=").startswith("run.dir: '' is no folder of a run's")


def test_overwrite_moves_earlier_folders_aside(tmp_path: Path, capsys: Capture) -> None:
    file = runs.config_file(tmp_path, warm_start={"steps": 0}, evaluation={"questions": 0})
    folder = tmp_path / "run"
    for name, mark in (("run", "new"), ("run-1", "old")):
        (tmp_path / name).mkdir()
        (tmp_path / name / mark).write_text("")
    argv = ["--config", file, "--run.dir", folder, "--run.steps=0", "--overwrite"]
    assert runs.call(capsys, main, *argv).status == 0
    assert list(runs.contents(tmp_path / "run-1")) == ["old"]
    assert list(runs.contents(tmp_path / "run-2")) == ["new"]
    assert {"config.yaml", "checkpoints/step-000000/state.json"} <= set(runs.contents(folder))
    # The flag is not kept: --resume must not move the run away from under itself.
    assert "overwrite:" not in (folder / "config.yaml").read_text()
    assert runs.call(capsys, main, "--resume", folder, "--overwrite").status == 0
    assert not (tmp_path / "run-3").exists()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """Sections that name plug-ins in a folder of the user's own."""
    monkeypatch.syspath_prepend(tmp_path)
    return {**runs.plug_ins(tmp_path), "warm_start": {"steps": 0}}


def test_plug_ins_of_another_folder_play(
    elsewhere: dict[str, Any], tmp_path: Path, capsys: Capture
) -> None:
    file = runs.config_file(tmp_path, engine=elsewhere["engine"], warm_start={"steps": 0})
    result = runs.call(capsys, main, "--config", file, "--run.dir", tmp_path / "run")
    assert result.status == 0
    lines = runs.read_rows(tmp_path / "run" / "metrics.jsonl")
    # One search, and at the last turn another one that is not executed.
    assert [line["searches_mean"] for line in lines] == [1.0] * 4
    assert "name: plugs.searching" in (tmp_path / "run" / "config.yaml").read_text()


def test_retrieval_that_fails_throughout_is_status_1(
    elsewhere: dict[str, Any], tmp_path: Path, capsys: Capture
) -> None:
    file = runs.config_file(tmp_path, **elsewhere)
    argv = ["--config", file, "--run.dir", tmp_path / "run"]
    result = runs.call(capsys, main, *argv, "--evaluation.questions=0")
    assert result.status == 1
    assert result.err.splitlines()[-1].endswith(
        "train.py: retrieval failed: step 1: retrieval failed in every episode; check the "
        "retriever: http://localhost:8000: no answer within 5 s; start retrieval.serve"
    )
    result = runs.call(capsys, main, *argv, "--warm_start.steps=1", "--overwrite")
    assert result.status == 1
    assert "warm start, step 1: retrieval failed in every" in result.err.splitlines()[-1]
    result = runs.call(capsys, main, *argv, "--run.steps=0", "--overwrite")
    assert result.status == 1
    assert "evaluation: retrieval failed in every episode" in result.err.splitlines()[-1]


def test_an_interrupted_run_says_how_to_go_on(
    elsewhere: dict[str, Any], tmp_path: Path, capsys: Capture
) -> None:
    file = runs.config_file(tmp_path, engine=elsewhere["engine"], warm_start={"steps": 0})
    argv = ["--config", file, "--run.dir", tmp_path / "run"]
    result = runs.call(capsys, main, *argv, "--engine.interrupt=true")
    assert result.status == 130
    assert result.err.splitlines()[-1].endswith(f"--resume {tmp_path / 'run'}")
    again = runs.call(capsys, main, "--resume", tmp_path / "run", "--engine.interrupt=false")
    assert again.status == 0


@pytest.mark.parametrize("name", plugins.names("agents.algorithms"))
def test_every_algorithm_trains(name: str, tmp_path: Path, capsys: Capture) -> None:
    """Two steps of several minibatches with the tiny model, a checkpoint, and two more."""
    file = runs.config_file(tmp_path, warm_start={"steps": 0}, evaluation={"questions": 0})
    folder = tmp_path / "run"
    argv = ["--optimizer.minibatches=2", f"--algorithm.name={name}", "--run.steps=2"]
    result = runs.call(capsys, main, "--config", file, "--run.dir", folder, *argv)
    assert result.status == 0, result.err
    assert runs.call(capsys, main, "--resume", folder, "--run.steps=3").status == 0
    lines = runs.read_rows(folder / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3]
    module = plugins.load("agents.algorithms", name)
    algorithm = module.build(module.Config())
    assert all((line["value_loss"] is None) == (algorithm.value is None) for line in lines)
    critic = folder / "checkpoints" / "step-000003" / "critic"
    assert critic.is_dir() == (algorithm.value is not None)


def test_the_readmes_algorithm_is_a_file_that_trains(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One new file of at most 45 lines, no edit, through its dotted name."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (code,) = [
        block.split("```")[0] for block in readme.split("```python\n") if "Algorithm(" in block
    ]
    assert len(code.splitlines()) <= 45
    package = tmp_path / "my_algorithms"
    package.mkdir()
    (package / "median.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    file = runs.config_file(tmp_path, warm_start={"steps": 0}, evaluation={"questions": 0})
    flags = ["--algorithm.name=my_algorithms.median", "--algorithm.clip_high=0.3"]
    folder = tmp_path / "run"
    result = runs.call(capsys, main, "--config", file, "--run.dir", folder, *flags)
    assert result.status == 0, result.err
    assert "name: my_algorithms.median" in (folder / "config.yaml").read_text()
    assert "clip_high: 0.3" in (folder / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--algorithm.name=ppo", "--algorithm.critic_rank=0"], "algorithm.critic_rank is 0; give"),
        (["--algorithm.name=stratified_grpo", "--algorithm.alpha=1.2"], "algorithm.alpha is 1.2;"),
        (
            ["--algorithm.name=stratified_grpo", "--algorithm.strata=luck"],
            "algorithm.strata is 'luck'; choose one of searches, turns, random",
        ),
        (["--algorithm.name=so_ppo", "--algorithm.rule=none"], "algorithm.rule is 'none'; choose"),
        (["--algorithm.name=grpo", "--algorithm.clip_low=-0.2"], "algorithm.clip_low is -0.2; giv"),
        (["--sampling.name=greedy"], "sampling: unknown name 'greedy'; choose one of dynamic,"),
    ],
)
def test_wrong_hyper_parameters_are_refused(
    flags: list[str], message: str, tmp_path: Path, capsys: Capture
) -> None:
    assert refusal(capsys, tmp_path, *flags).startswith(message)
    assert not (tmp_path / "run").exists()


def test_dynamic_sampling_draws_until_it_has_its_groups(tmp_path: Path, capsys: Capture) -> None:
    """The tiny model is never right: every round is dropped, and the step says how many."""
    file = runs.config_file(tmp_path, warm_start={"steps": 0}, evaluation={"questions": 0})
    folder, flags = tmp_path / "run", ["--sampling.name=dynamic", "--sampling.rounds=3"]
    argv = ["--config", file, "--run.dir", folder, "--run.steps=2", *flags]
    assert runs.call(capsys, main, *argv, "--env.reward", "{exact_match: 1.0}").status == 0
    rows = runs.read_rows(folder / "rollouts.jsonl")
    groups = [row["group_id"] for row in rows]
    # 2 steps of 3 rounds of 2 questions, 4 samples each; no two groups share an id.
    assert sorted(set(groups)) == list(range(12)) and len(groups) == 48
    assert len({row["id"] for row in rows}) == 12
