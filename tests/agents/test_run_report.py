"""report.html of a run: what is in it, of which steps, at any time; refusals in one line."""

import json
import re
from pathlib import Path

import pytest

from agents import run_report
from agents.run_report import main, write_run_report
from retrieval.errors import InputError
from tests.agents import run_folder, runs
from tests.agents.results_folder import HOSTILE, data_of


def content(folder: Path) -> dict:
    return data_of(write_run_report(folder).read_text(encoding="utf-8"))


def test_the_report_holds_what_the_folder_does(tmp_path: Path) -> None:
    folder = run_folder.write(tmp_path / "nine")
    before = runs.contents(folder)
    data = content(folder)
    after = runs.contents(folder)
    assert after == before | {"report.html": after["report.html"]}, "nothing else was touched"
    assert (data["name"], data["planned"], data["config"]) == ("nine", 9, run_folder.CONFIG)
    assert data["slots"]["algorithm"] == "so_ppo" and data["slots"]["engine"] is None
    assert data["summary"] == run_folder.SUMMARY and data["events"] == [run_folder.EVENT]
    rows = runs.read_rows(folder / "metrics.jsonl")
    for name in ("step", "reward_mean", "kl_ref", "grad_norm"):
        assert data["metrics"][name] == [row[name] for row in rows]
    assert "value_loss" not in data["metrics"], "it was never a number"
    # The episodes whose tokens were kept, with them and with their line of rollouts.jsonl.
    assert [(e["step"], e["row"]) for e in data["episodes"]] == [
        (step, row) for step in range(1, 6) for row in range(2)
    ]
    lines = runs.read_rows(folder / "rollouts.jsonl")
    traces = runs.read_rows(folder / "tokens.jsonl")
    for place, episode in enumerate(data["episodes"]):
        line, trace = lines[6 * (place // 2) + place % 2], traces[place]
        assert {key: episode[key] for key in line} == line
        assert episode["trace"] == {k: trace[k] for k in trace if k not in ("step", "row")}
    assert write_run_report(folder).read_bytes() == after["report.html"]


def test_without_tokens_a_few_episodes_of_each_step_are_drawn(tmp_path: Path) -> None:
    data = content(run_folder.write(tmp_path, kept=0))
    assert [e["step"] for e in data["episodes"]] == [s for s in range(1, 6) for _ in range(4)]
    assert all(e["trace"] is None for e in data["episodes"])
    assert len({tuple(e["row"] for e in data["episodes"] if e["step"] == s) for s in (1, 2, 3)}) > 1


@pytest.mark.parametrize("kept", [2, 0])
def test_a_long_run_is_thinned_evenly(
    kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_report, "MOST_EPISODES", 6)
    monkeypatch.setattr(run_report, "MOST_PER_STEP", 2)
    monkeypatch.setattr(run_report, "PER_STEP", 2)
    data = content(run_folder.write(tmp_path, steps=10, kept=kept))
    # 6 episodes, 2 of each step: first, last, and the one in the middle (round(4.5) is 4).
    assert [e["step"] for e in data["episodes"]] == [1, 1, 5, 5, 10, 10]
    assert data["metrics"]["step"] == list(range(1, 11)), "curves are of every step"


def test_a_run_that_goes_on_has_a_report_too(tmp_path: Path) -> None:
    folder = run_folder.write(tmp_path)
    (folder / "summary.json").unlink()
    (folder / "events.jsonl").unlink()
    for name in ("metrics.jsonl", "rollouts.jsonl", "tokens.jsonl"):
        file = folder / name
        file.write_bytes(file.read_bytes()[:-40])  # a line is being written
    data = content(folder)
    assert data["metrics"]["step"] == [1, 2, 3, 4]
    assert data["summary"] is None and data["events"] == []
    assert {e["step"] for e in data["episodes"]} == {1, 2, 3, 4}


def test_a_run_before_its_first_step_has_a_report(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("run: {steps: 3}\n")
    assert content(tmp_path)["episodes"] == []


MALFORMED = {
    "metrics.jsonl": ('{"step": 1', "line 6: not JSON (Expecting ',' delimiter"),
    "rollouts.jsonl": ('{"step": "x"}', "line 31: step is 'x'; "),
    "tokens.jsonl": ('{"step": 5, "row": 0}', "line 11: ids is None; "),
    "events.jsonl": ("[1]", "line 2 is no JSON object; "),
}


@pytest.mark.parametrize(("name", "line"), MALFORMED.items())
def test_a_malformed_line_is_named(name: str, line: tuple[str, str], tmp_path: Path) -> None:
    folder = run_folder.write(tmp_path, kept=2)
    with (folder / name).open("a") as out:
        out.write(line[0] + "\n")
    with pytest.raises(InputError) as refused:
        write_run_report(folder)
    assert str(refused.value).startswith(f"{folder / name}: {line[1]}")
    assert str(refused.value).endswith("restore the file, or remove the line")


def test_token_lists_of_unequal_length_are_refused(tmp_path: Path) -> None:
    folder = run_folder.write(tmp_path)
    rows = runs.read_rows(folder / "tokens.jsonl")
    rows[3]["log_ratios"].pop()
    runs.write_rows(folder / "tokens.jsonl", rows)
    with pytest.raises(InputError, match=r"tokens.jsonl: line 4: its lists differ in length; "):
        write_run_report(folder)


def test_hostile_text_stays_inside_the_data(tmp_path: Path) -> None:
    page = write_run_report(run_folder.write(tmp_path)).read_text(encoding="utf-8")
    assert page.lower().count("</script") == 2 and HOSTILE not in page
    assert data_of(page)["events"][0]["action"] == HOSTILE
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", page)
    assert set(re.findall(r"(?:https?:)?//[a-z][\w./]*", page)) == {"http://www.w3.org/2000/svg"}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_folder.write(tmp_path / "run")
    assert main([str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
    empty = tmp_path / "empty"
    empty.mkdir()
    for argv in ([], [str(folder)] * 2, [str(folder), "--fast"], [str(empty)]):
        assert main(argv) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.startswith("run_report: error: ")
        assert said.err.count("\n") == 1


def test_nan_is_null(tmp_path: Path) -> None:
    folder = run_folder.write(tmp_path)
    rows = runs.read_rows(folder / "metrics.jsonl")
    rows[0]["em"] = float("nan")  # Python's json writes and reads it
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert content(folder)["metrics"]["em"][0] is None
