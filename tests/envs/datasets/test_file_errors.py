"""Bad files are refused in one line that names file, place and remedy."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from envs.datasets import hotpotqa, jsonl, medqa, nq
from retrieval.errors import InputError

GOOD = {"id": "1", "question": "q?", "answers": ["a"]}
CHOICE = {"id": "1", "question": "q?", "answers": ["B"], "options": {"A": "x", "B": "y"}}


def refused(plugin: Any, path: Path, **changes: Any) -> str:
    with pytest.raises(InputError) as caught:
        plugin.build(plugin.Config(path=str(path), **changes))
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message.replace(str(path), path.name)


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("name", ["none.jsonl", "none.json", "none.json.gz", "none.parquet"])
def test_a_missing_file(tmp_path: Path, name: str) -> None:
    assert refused(nq, tmp_path / name) == f"{name}: no such file"


def test_an_unknown_suffix(tmp_path: Path) -> None:
    assert refused(nq, write(tmp_path / "rows.txt", GOOD)) == (
        "rows.txt: unknown format; the name must end in one of .json, .json.gz, .jsonl, .jsonl.gz, "
        ".parquet, .csv, .tsv"
    )


@pytest.mark.parametrize("name", ["empty.jsonl", "empty.json"])
def test_an_empty_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("[]" if name.endswith(".json") else "\n\n")
    assert refused(nq, tmp_path / name) == f"{name}: no questions; the file is empty"


def test_an_empty_split_says_what_to_change(tmp_path: Path) -> None:
    message = refused(jsonl, write(tmp_path / "q.jsonl", GOOD), split="test", test_share=0.0)
    assert message.endswith("no questions in split 'test' at test_share 0.0; change either")


def test_an_unknown_format_says_what_is_found_and_what_is_known(tmp_path: Path) -> None:
    message = refused(nq, write(tmp_path / "q.jsonl", {"query": "q?", "label": "a"}))
    assert message.startswith("q.jsonl: line 1: unknown format with the keys query, label; known ")
    for shape in ("FlashRAG's {id, question, golden_answers", "NQ-open's", "Search-R1's"):
        assert shape in message


def test_jsonl_reads_its_own_format_only(tmp_path: Path) -> None:
    assert "unknown format" in refused(
        jsonl, write(tmp_path / "q.jsonl", {"question": "q?", "answer": ["a"]})
    )


def test_malformed_json_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps(GOOD) + "\n\n{oops\n")
    assert refused(nq, path).startswith("q.jsonl: line 3: not JSON")


def test_malformed_json_file_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    path.write_text('[\n{"id": 1},\n{oops\n]')
    assert refused(hotpotqa, path).startswith("q.json: line 3: not JSON")


@pytest.mark.parametrize("name", ["q.json", "q.json.gz"])
def test_json_lines_under_the_name_of_json_are_read(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "q.jsonl", GOOD, {**GOOD, "id": "2"}, {**GOOD, "question": " "})
    data = path.read_bytes()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert refused(nq, path) == f"{name}: line 3: the question is empty"
    assert len(nq.build(nq.Config(str(path), limit=2)).questions) == 2


def test_objects_in_a_row_get_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    path.write_text(json.dumps(GOOD) + json.dumps(GOOD))
    assert refused(nq, path).endswith("name it .jsonl if it has one object a line")


def test_json_that_is_no_list(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    path.write_text('"text"')
    assert refused(nq, path) == "q.json: holds a JSON str; want a list of questions"


def test_invalid_utf8_in_json(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    path.write_bytes(b'["\xff"]')
    assert "not JSON in UTF-8" in refused(nq, path)


@pytest.mark.parametrize("name", ["q.jsonl.gz", "q.json.gz"])
def test_a_truncated_gzip(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    rows = [{**GOOD, "id": str(number)} for number in range(2_000)]
    if name == "q.json.gz":
        text = json.dumps(rows)
    else:
        text = "".join(json.dumps(row) + "\n" for row in rows)
    data = gzip.compress(text.encode())
    path.write_bytes(data[: len(data) // 2])
    assert "truncated or corrupt gzip" in refused(nq, path)


def test_a_gzip_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "q.json.gz"
    path.write_text("[]")
    assert "truncated or corrupt gzip" in refused(nq, path)


def test_duplicate_ids(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", GOOD, {**GOOD, "id": "2"}, GOOD)
    assert refused(jsonl, path) == "q.jsonl: line 3: id '1' occurs twice; ids must be unique"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1, 2], "a list where an object belongs"),
        ({**GOOD, "question": "  "}, "the question is empty"),
        ({**GOOD, "question": 5}, "question is a int, not text"),
        ({**GOOD, "answers": []}, "no answers, or an empty one"),
        ({**GOOD, "answers": None}, "no answers, or an empty one"),
        ({**GOOD, "answers": ["a", " "]}, "no answers, or an empty one"),
        ({**GOOD, "answers": {"text": "a"}}, "answers must be a text or a list of texts"),
        ({**GOOD, "answers": [1990]}, "answers must be a text or a list of texts"),
        ({**GOOD, "supporting_titles": [3]}, "supporting_titles must be a text or a list"),
        ({**CHOICE, "answers": ["C"]}, "answer 'C' is none of the options A, B"),
        ({**CHOICE, "answers": []}, "no answers, or an empty one"),
        ({**CHOICE, "options": {"A": 1, "B": 2}}, "options must map letters to texts"),
        ({**CHOICE, "options": "yes"}, "options must be a mapping or a list, not 'yes'"),
        ({**CHOICE, "answers": ["B", "x"]}, "answers 'B' and 'x' are two different options"),
        ({**GOOD, "question": "\ud800?"}, "not valid Unicode (surrogates not allowed)"),
    ],
)
def test_a_wrong_row_names_file_and_line(tmp_path: Path, row: Any, message: str) -> None:
    path = write(tmp_path / "q.jsonl", {**GOOD, "id": "0"}, row)
    assert refused(jsonl, path).startswith(f"q.jsonl: line 2: {message}")


def test_medqa_with_a_letter_that_is_no_option(tmp_path: Path) -> None:
    row = {"question": "q?", "options": {"A": "x", "B": "y"}, "answer": "z", "answer_idx": "E"}
    message = refused(medqa, write(tmp_path / "q.jsonl", row))
    assert message == "q.jsonl: line 1: answer 'E' is none of the options A, B"


def test_mirage_without_the_subset(tmp_path: Path) -> None:
    path = write(tmp_path / "benchmark.json", {"medqa": {}, "mmlu": {}})
    message = refused(medqa, path, subset="nejm")
    assert message == "benchmark.json: no subset 'nejm' of questions by id; it has medqa, mmlu"


def test_search_r1_without_a_target(tmp_path: Path) -> None:
    row = {"prompt": [{"content": "Question: q?"}], "reward_model": {"style": "rule"}}
    assert "reward_model.ground_truth.target" in refused(nq, write(tmp_path / "q.jsonl", row))


def test_hotpotqa_with_broken_facts_or_context(tmp_path: Path) -> None:
    row = {"_id": "1", "question": "q?", "answer": "a", "supporting_facts": 7, "context": 7}
    assert "supporting_facts must be" in refused(hotpotqa, write(tmp_path / "a.jsonl", row))
    row["supporting_facts"] = []
    message = refused(hotpotqa, write(tmp_path / "b.jsonl", row), context_corpus=True)
    assert message.startswith("b.jsonl: line 1: context must be [[title, [sentence")


def test_hotpotqa_without_any_context(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", GOOD)
    assert "no row has a context" in refused(hotpotqa, path, context_corpus=True)


def test_a_parquet_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "q.parquet"
    path.write_text("not parquet")
    assert "cannot be read as Parquet" in refused(nq, path)


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_an_impossible_test_share(tmp_path: Path, share: float) -> None:
    path = write(tmp_path / "q.jsonl", GOOD)
    with pytest.raises(InputError, match=f"test_share {share} must lie between 0 and 1"):
        jsonl.build(jsonl.Config(str(path), test_share=share))
