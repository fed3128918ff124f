"""The results table's bookkeeping: which cells there are, what is remembered, what it says."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from agents import eval_run
from agents.eval_command import build_parser
from benchmarks import results
from benchmarks import results_cells as cells

RUNS = {"trained": "runs/a", "sft": "runs/b", "rejection": "runs/c"}
ROWS = [*cells.METHODS, *cells.OPTIONS]


def plan(folder: Path, runs: dict[str, str] = RUNS) -> cells.Plan:
    return cells.Plan(Path("data"), folder, 200, runs)


def test_every_row_meets_every_set_but_the_ceiling_where_no_evidence_is_known() -> None:
    planned = list(plan(Path("out")).cells(cells.METHODS, list(cells.SETS)))
    assert len(planned) == 13 * 8 - 2
    assert len({cell.folder for cell in planned}) == len(planned)


def test_rows_of_runs_that_are_not_given_are_left_out() -> None:
    planned = plan(Path("out"), {"sft": "runs/b"}).cells(ROWS, ["medqa"])
    methods = [cell.method for cell in planned]
    assert "sft" in methods
    assert not {"search_r1, trained", "rejection_sampling"} & set(methods)
    assert "search_r1, trained, strict_queries" not in methods


def test_a_medical_option_is_shown_on_its_own_sets_only() -> None:
    planned = plan(Path("out")).cells(["rag, exclude_sources"], list(cells.SETS))
    assert [cell.dataset for cell in planned] == ["pubmedqa", "bioasq"]


def test_an_agents_corpus_is_put_aside_where_another_one_is_searched() -> None:
    planned = plan(Path("out")).cells(["direct", "search_r1, trained"], ["nq", "medqa", "atlas"])
    aside = [cell.dataset for cell in planned if "--retriever.corpus" in cell.flags]
    assert aside == ["medqa"]


def result(cell: cells.Cell, **summary: object) -> None:
    cell.folder.mkdir(parents=True)
    (cell.folder / "summary.json").write_text(json.dumps(summary))


def test_a_row_says_what_the_summary_says(tmp_path: Path) -> None:
    (cell,) = plan(tmp_path).cells(["direct"], ["medqa"])
    assert cell.row() is None
    plain = dict.fromkeys(cells.PLAIN, 0.25) | {"n": 200, "infra_errors": 0}
    accuracy = {"mean": 1 / 3, "low": 0.2, "high": 0.5}
    result(cell, accuracy=accuracy, coverage={"mean": 0.75, "low": 0.5, "high": 1.0}, **plain)
    row = cell.row()
    assert row is not None
    assert (row["score"], row["low"], row["high"], row["n"]) == ("0.3333", "0.2", "0.5", "200")
    assert (row["coverage"], row["evidence_recall"]) == ("0.75", "")
    assert cells.key_of(row) == cell.key
    assert cells.table([row]).splitlines() == [
        "| method | medqa |",
        "|---|---|",
        "| direct | 0.333 [0.200, 0.500] |",
    ]


def test_an_option_stands_beside_its_method_without_it() -> None:
    row = dict.fromkeys(cells.COLUMNS, "") | {"dataset": "medmcqa", "low": "0", "high": "1"}
    plain = row | {"method": "direct", "score": "0.25", "invalid_rate": "0.1"}
    abstaining = row | {"method": "direct, abstain", "score": "0.2", "invalid_rate": "0"}
    abstaining |= {"coverage": "0.5", "accuracy_answered": "0.4"}
    assert cells.effects([abstaining, plain]).splitlines()[2:] == [
        "| direct, abstain | medmcqa | 0.25 | 0.2 | 0 | - | 0.5 | 0.4 |"
    ]
    assert cells.effects([abstaining]) == ""  # nothing to compare it with
    assert "abstain" not in cells.table([abstaining, plain])


def test_an_evaluation_in_which_everything_failed_has_no_row(tmp_path: Path) -> None:
    (cell,) = plan(tmp_path).cells(["direct"], ["medqa"])
    result(cell, **dict.fromkeys(cells.PLAIN, 0))
    assert cell.row() is None


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    rows = [{name: f'a "{name}", {i}' for name in cells.COLUMNS} for i in range(2)]
    cells.write(tmp_path / "new" / "cells.csv", rows)
    assert cells.read(tmp_path / "new" / "cells.csv") == rows
    assert cells.read(tmp_path / "none.csv") == []


@pytest.mark.parametrize("method", ROWS)
def test_every_row_is_a_valid_command(method: str, tmp_path: Path) -> None:
    runs = dict.fromkeys(RUNS, "embedded")  # an agent without a run of its own
    for cell in plan(tmp_path, runs).cells([method], [*cells.SETS, *cells.WORLDS]):
        values, _, _ = eval_run.parse([*cell.flags, "--out", "x"], build_parser())
        assert values["dataset"].name == cell.dataset
        assert values["env"].max_turns == 3


def test_cells_that_are_known_are_not_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, file = tmp_path / "out", tmp_path / "cells.csv"
    flags = ["--methods", "scripted", "--sets", "atlas", "--questions", "5", "--jobs", "1"]
    argv = ["results", *flags, "--out", str(out), "--csv", str(file)]
    monkeypatch.setattr(sys, "argv", argv)
    assert results.main() == 0
    (row,) = cells.read(file)
    assert (row["method"], row["dataset"], row["n"]) == ("scripted", "atlas", "5")
    shutil.rmtree(out)
    assert results.main() == 0
    assert not out.exists()
    assert cells.read(file) == [row]
    assert "| scripted |" in capsys.readouterr().out
