"""report.html: what is in it, whatever text it holds; refusals in one line."""

import base64
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.evaluation import summarize
from agents.page import Page, embed
from agents.predictions import OUTCOMES
from agents.report import main, read_predictions, write_report
from retrieval.errors import InputError
from tests.agents import results_folder, runs

PREDICTIONS = results_folder.predictions()
# What ends or opens something in HTML or in JSON, more often than by chance.
MARKUP = ("</script>", "<!--", "<script", "]]>", "&lt;", "\u2028", "\ud800", "\\u003c", "\0")
# With lone surrogates; but not a pair of them, which JSON takes for one letter.
TEXTS = st.lists(st.text(st.characters(exclude_categories=())) | st.sampled_from(MARKUP)).map(
    lambda parts: re.sub("[\udc00-\udfff]", "", "".join(parts))
)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
render = Page("evaluation", "Evaluation").render
WHOLE = render({})


@settings(deadline=None)
@given(VALUES)
def test_any_text_comes_back_and_cannot_end_the_script(value: Any) -> None:
    text = embed(value)
    assert json.loads(text) == value
    assert not re.search("[<>&\u2028\u2029]", text)
    page = render({"value": value})
    page.encode()  # no lone surrogate is left
    assert results_folder.data_of(page) == {"value": value}
    assert page.lower().count("</script") == WHOLE.count("</script") == 2


@settings(deadline=None)
@given(TEXTS)
def test_packed_data_come_back_too(text: str) -> None:
    page = render({"text": text}, most_plain=0)
    block = page.split('data-packing="gzip">', 1)[1].split("</script", 1)[0]
    assert json.loads(gzip.decompress(base64.b64decode(block))) == {"text": text}


def test_what_json_does_not_know_is_null() -> None:
    assert embed([float("nan"), {"a": float("-inf")}, 1.5]) == '[null, {"a": null}, 1.5]'


def test_the_report_holds_what_the_folder_does(tmp_path: Path) -> None:
    folder = results_folder.write(tmp_path / "results", PREDICTIONS, method="agent")
    before = runs.contents(folder)
    file = write_report(folder)
    assert file == folder / "report.html"
    after = runs.contents(folder)
    # Nothing else was touched, and nothing left behind.
    assert after == before | {"report.html": file.read_bytes()}
    data = results_folder.data_of(file.read_text(encoding="utf-8"))
    assert data["summary"] == json.loads(before["summary.json"])
    assert data["config"] == before["config.yaml"].decode()
    assert data["outcomes"] == OUTCOMES
    rows = runs.read_rows(folder / "predictions.jsonl")
    assert len(data["episodes"]) == len(rows)
    for episode, row, prediction in zip(data["episodes"], rows, PREDICTIONS, strict=True):
        assert episode == row | {"score": prediction.score, "failed": prediction.failed}
    names = {p.dataset for p in PREDICTIONS}
    assert data["datasets"] == {
        name: summarize([p for p in PREDICTIONS if p.dataset == name]) for name in names
    }
    # The same folder gives the same file.
    assert write_report(folder).read_bytes() == after["report.html"]


def test_the_summarys_own_numbers_of_datasets_are_shown(tmp_path: Path) -> None:
    parts = {"one": {"n": 3, "em": {"mean": 0.5, "low": 0.25, "high": 0.75}, "new": [1]}}
    folder = results_folder.write(tmp_path, PREDICTIONS[:3], datasets=parts)
    assert results_folder.data_of(write_report(folder).read_text())["datasets"] == parts


def test_the_page_reaches_nobody() -> None:
    page = WHOLE
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    parts = dict(part.split(" ", 1) for part in policy.split("; "))
    assert parts.pop("default-src") == "'none'"
    assert parts.pop("script-src").startswith("'sha256-")
    assert parts.pop("style-src").startswith("'sha256-")
    assert parts == {"img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}
    # No address but a namespace's, and no placeholder left.
    assert set(re.findall(r"(?:https?:)?//[a-z][\w./]*", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.findall(r"__[A-Z]+__", page)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", page)


def test_an_old_folder_gets_the_defaults_of_what_it_lacks(tmp_path: Path) -> None:
    folder = results_folder.write(tmp_path, PREDICTIONS)
    rows = runs.read_rows(folder / "predictions.jsonl")
    for row in rows:
        for name in ("options", "evidence", "truncated", "outcome"):
            del row[name]
        row["since_removed"] = 1
    runs.write_rows(folder / "predictions.jsonl", rows)
    episodes = results_folder.data_of(write_report(folder).read_text())["episodes"]
    for episode, prediction in zip(episodes, PREDICTIONS, strict=True):
        known = {"right", "failed"} & {prediction.outcome}
        assert episode["outcome"] == (known.pop() if known else "wrong")
        assert (episode["options"], episode["evidence"], episode["truncated"]) == (None, [], 0)
        assert "since_removed" not in episode


@pytest.mark.parametrize("name", ["config.yaml", "predictions.jsonl", "summary.json"])
def test_an_unfinished_evaluation_is_refused(name: str, tmp_path: Path) -> None:
    folder = results_folder.write(tmp_path / "results", PREDICTIONS[:1])
    (folder / name).unlink()
    with pytest.raises(InputError) as refused:
        write_report(folder)
    assert str(refused.value) == (
        f"{folder}: has no {name}, so it holds no finished evaluation; let eval.py finish there"
    )
    assert not (folder / "report.html").exists()


ROW = PREDICTIONS[0].to_json()
MALFORMED = {
    "{": "not JSON (Expecting property name",
    "[1]": " is no JSON object; run the evaluation again",
    "{}": "missing 12 required positional arguments: 'id', 'dataset', ",
    json.dumps(ROW | {"searches": "many"}): ": searches is 'many'; run the evaluation again",
    json.dumps(ROW | {"options": ["A"]}): ": options is ['A']; run the evaluation again",
    json.dumps(ROW | {"steps": [3]}): ": a turn is no JSON object; run the evaluation again",
    json.dumps(ROW | {"steps": [{}]}): ": a turn: text is None; run the evaluation again",
    json.dumps(ROW | {"steps": [{**ROW["steps"][0], "hits": [{"id": 1}]}]}): ": a hit: id is 1;",
    json.dumps(ROW | {"metrics": {"f1": 1}}): ": metrics holds no accuracy and no em; run the",
}


@pytest.mark.parametrize(("line", "message"), MALFORMED.items())
def test_a_malformed_line_is_named(line: str, message: str, tmp_path: Path) -> None:
    folder = results_folder.write(tmp_path, PREDICTIONS[:2])
    with (folder / "predictions.jsonl").open("a") as lines:
        lines.write(line + "\n")
    with pytest.raises(InputError) as refused:
        write_report(folder)
    said = str(refused.value)
    assert said.startswith(f"{folder / 'predictions.jsonl'}: line 3") and message in said
    assert "\n" not in said


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"n": "many"}', b"\xff"])
def test_a_malformed_summary_is_refused(text: str | bytes, tmp_path: Path) -> None:
    folder = results_folder.write(tmp_path, PREDICTIONS[:1])
    (folder / "summary.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=re.escape(str(folder / "summary.json"))) as refused:
        write_report(folder)
    assert str(refused.value).endswith("; run the evaluation again")


def test_a_report_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = results_folder.write(tmp_path, PREDICTIONS[:2])
    first = write_report(folder).read_bytes()
    runs.write_rows(folder / "predictions.jsonl", [replace(PREDICTIONS[0], id="new").to_json()])

    def full(file: Path, text: str, encoding: str) -> int:
        with file.open("w", encoding=encoding) as out:
            out.write(text[:100])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(InputError) as refused:
        patch.setattr(Path, "write_text", full)
        write_report(folder)
    assert str(refused.value).startswith(f"{folder / 'report.html'}: cannot be written: No space")
    assert (folder / "report.html").read_bytes() == first
    assert write_report(folder).read_bytes() != first


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = results_folder.write(tmp_path / "results", PREDICTIONS[:2])
    assert main([str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
    for argv in ([], [str(folder)] * 2, [str(folder), "--fast"], [str(tmp_path)]):
        assert main(argv) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.startswith("report: error: ")
        assert said.err.count("\n") == 1


def test_predictions_survive_their_file(tmp_path: Path) -> None:
    folder = results_folder.write(tmp_path, PREDICTIONS)
    again = read_predictions(folder / "predictions.jsonl")
    assert [json.dumps(p.to_json()) for p in again] == [
        json.dumps(p.to_json()) for p in PREDICTIONS
    ]
