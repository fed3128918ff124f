"""Local folders of Parquet: `datasets.load_dataset` reads them as it reads the hub."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from envs.datasets.huggingface import Config, build
from envs.types import Question
from retrieval.errors import InputError

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "trivia"
    path.mkdir()
    return path


def load(folder: Path, rows: list[dict[str, Any]], **changes: Any) -> tuple[Question, ...]:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "train.parquet")
    config = Config(str(folder), cache_dir=str(folder.parent / "cache"), **changes)
    return tuple(build(config).questions)


def test_texts_and_lists(folder: Path) -> None:
    rows = [{"id": "1", "question": "q?", "answers": ["a", "b"]}]
    assert load(folder, rows) == (Question("1", "q?", ("a", "b"), dataset="trivia"),)


def test_named_columns_and_no_id(folder: Path) -> None:
    rows = [{"query": "q?", "label": "a"}]
    (question,) = load(folder, rows, question_column="query", answers_column="label")
    assert (question.text, question.answers) == ("q?", ("a",))
    assert question.id.startswith("trivia-")


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param({"text": ["a", "b"], "answer_start": [1, 2]}, id="squad"),
        pytest.param({"aliases": ["a", "b"], "value": "a"}, id="triviaqa"),
    ],
)
def test_answers_in_a_mapping(folder: Path, answers: dict[str, Any]) -> None:
    (question,) = load(folder, [{"id": "1", "question": "q?", "answers": answers}])
    assert question.answers == ("a", "b")


@pytest.mark.parametrize("answer", [1, "B", "no"])
def test_multiple_choice_by_number_letter_or_text(folder: Path, answer: int | str) -> None:
    rows = [{"id": "1", "question": "q?", "answer": answer, "choices": ["yes", "no"]}]
    (question,) = load(folder, rows, answers_column="answer", options_column="choices")
    assert question.answers == ("B", "no")
    assert question.options == {"A": "yes", "B": "no"}


def test_equal_options_keep_their_letters(folder: Path) -> None:
    rows = [{"id": "1", "question": "q?", "answer": 2, "choices": ["yes", "yes", "no"]}]
    (question,) = load(folder, rows, answers_column="answer", options_column="choices")
    assert question.answers == ("C", "no")


def test_its_own_split_and_ours(folder: Path) -> None:
    rows = [{"id": str(n), "question": "q?", "answers": ["a"]} for n in range(100)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows[:5]), folder / "test.parquet")
    ids = [question.id for question in load(folder, rows, hf_split="test")]
    assert ids == ["0", "1", "2", "3", "4"]
    train, test = (load(folder, rows, split=split) for split in ("train", "test"))
    assert len(train) + len(test) == 100 and 8 < len(test) < 32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers_column": "label"}, "no column 'label'; it has id, question, answers"),
        ({"options_column": "choices"}, "no column 'choices'"),
        ({"hf_split": "validation"}, "cannot be loaded"),
        ({"config_name": "nonsense"}, "cannot be loaded"),
    ],
)
def test_wrong_settings(folder: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(folder, [{"id": "1", "question": "q?", "answers": ["a"]}], **changes)
    assert message in str(caught.value) and str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_row_names_its_place(folder: Path) -> None:
    rows = [{"id": n, "question": text, "answers": ["a"]} for n, text in enumerate(["q?", ""])]
    with pytest.raises(InputError, match="trivia: row 2: the question is empty"):
        load(folder, rows)


def test_an_unreachable_hub_is_an_input_error(tmp_path: Path) -> None:
    script = (
        "from envs.datasets.huggingface import Config, build\n"
        "from retrieval.errors import InputError\n"
        "try:\n    build(Config('nobody/nothing'))\n"
        "except InputError as error:\n    print(error)\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    assert line.startswith("nobody/nothing: cannot be loaded (")
    assert "that the hub can be reached, or give a local folder" in line
