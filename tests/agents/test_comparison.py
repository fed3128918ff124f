"""`eval.py --compare`: exact numbers on folders made by hand, and the command's errors."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from agents.comparison import compare, read_evaluation
from agents.eval_command import main
from agents.statistics import paired_bootstrap
from tests.agents import runs

Capture = pytest.CaptureFixture[str]
Row = dict[str, Any]


def row(number: int, em: float, **changes: Any) -> Row:
    """A line of predictions.jsonl; the accepted answer of question 3 is "three 3"."""
    return {
        "id": f"q{number}",
        "dataset": "numbers",
        "question": f"What is {number}?",
        "answers": [f"three {number}"],
        "prediction": f"three {number}" if em else "four",
        "metrics": {"em": em, "f1": em},
        "searches": 1,
        "turns": 2,
        "invalid": 0,
        "tokens": 10,
        "stop_reason": "answered",
        "steps": [{"text": "x"}],
        "outcome": "right" if em else "answered_wrongly",
        **changes,
    }


def choice(number: int, accuracy: float, **changes: Any) -> Row:
    return row(
        number,
        accuracy,
        dataset="quiz",
        metrics={"accuracy": accuracy, "tie": 0.0, "unparsed": 0.0},
        answers=["A", "x"],
        options={"A": "x", "B": "y"},
        **changes,
    )


def folder(path: Path, rows: list[Row], **summary: Any) -> Path:
    path.mkdir(parents=True)
    runs.write_rows(path / "predictions.jsonl", rows)
    (path / "summary.json").write_text(json.dumps({"n": len(rows), **summary}))
    return path


def compared(tmp_path: Path, a: list[Row], b: list[Row], /, **methods: str) -> dict[str, Any]:
    sides = [
        folder(tmp_path / name, rows, method=methods.get(name, "search"))
        for name, rows in (("a", a), ("b", b))
    ]
    return compare(*map(read_evaluation, sides))


def test_two_won_and_one_lost(tmp_path: Path) -> None:
    a = [row(1, 0), row(2, 0), row(3, 1), row(4, 1), row(5, 0, tokens=30)]
    b = [row(5, 0, searches=2), row(4, 1), row(3, 0, prediction=None), row(2, 1), row(1, 1)]
    result = compared(tmp_path, a, b)
    assert (result["n"], result["only_a"], result["only_b"], result["failed"]) == (5, 0, 0, 0)
    assert list(result["metrics"]) == ["all"]  # one dataset
    metrics = result["metrics"]["all"]
    assert list(metrics) == ["em", "f1", "searches", "tokens"]
    # Differences 1, 1, -1, 0, 0. Of the 8 sign patterns of three, each sums to an odd number, so
    # all are at least as far from 0 as the observed sum of 1.
    assert metrics["em"] == {
        "n": 5,
        "a": 0.4,
        "b": 0.6,
        "difference": paired_bootstrap([1, 1, 0, 1, 0], [0, 0, 1, 1, 0]),
        "p": 1.0,
    }
    assert metrics["em"]["difference"]["mean"] == pytest.approx(0.2)
    assert (metrics["searches"]["a"], metrics["searches"]["b"]) == (1, 1.2)
    # (10 * 4 + 30) / 5; one difference that is not 0: both signs are as extreme.
    assert (metrics["tokens"]["a"], metrics["tokens"]["b"], metrics["tokens"]["p"]) == (14, 10, 1)
    assert result["wins"] == [
        {"dataset": "numbers", "id": f"q{n}", "answers": [f"three {n}"], "a": "four", "b": b_says}
        for n, b_says in ((1, "three 1"), (2, "three 2"))
    ]
    assert result["losses"] == [
        {"dataset": "numbers", "id": "q3", "answers": ["three 3"], "a": "three 3", "b": None}
    ]
    assert result["a"]["outcomes"] == {"right": 2, "answered_wrongly": 3}
    assert result["b"]["outcomes"] == {"right": 3, "answered_wrongly": 2}
    assert result["ceiling"] is None


def test_ten_won_of_ten(tmp_path: Path) -> None:
    result = compared(tmp_path, [row(i, 0) for i in range(10)], [row(i, 1) for i in range(10)])
    em = result["metrics"]["all"]["em"]
    assert em["difference"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert em["p"] == 2 / 2**10


def test_what_only_one_has_and_what_failed_is_left_out_and_counted(tmp_path: Path) -> None:
    failed = {"stop_reason": "retrieval_error", "outcome": "failed"}
    a = [row(1, 1), row(2, 1), row(3, 0, **failed), row(4, 1), row(5, 1)]
    b = [
        row(1, 1),
        row(2, 0, stop_reason="model_error", outcome="failed"),
        row(3, 0, **failed),
        row(6, 1),
        row(1, 1, dataset="other"),  # the same id in another dataset is another question
        row(5, 0),
    ]
    result = compared(tmp_path, a, b)
    assert (result["n"], result["only_a"], result["only_b"], result["failed"]) == (2, 1, 2, 2)
    em = result["metrics"]["all"]["em"]
    assert (em["n"], em["a"], em["b"]) == (2, 1.0, 0.5)
    assert [lost["id"] for lost in result["losses"]] == ["q5"]
    assert result["a"]["outcomes"] == {"right": 2}


def test_each_dataset_and_all_of_them(tmp_path: Path) -> None:
    a = [row(1, 1), row(2, 0), choice(1, 0), choice(2, 0, searches=3)]
    b = [row(1, 1), row(2, 1), choice(1, 1), choice(2, 0)]
    result = compared(tmp_path, a, b)
    assert {name: list(metrics) for name, metrics in result["metrics"].items()} == {
        "all": ["accuracy", "em", "f1", "searches", "tokens"],
        "numbers": ["em", "f1", "searches", "tokens"],
        "quiz": ["accuracy", "searches", "tokens"],
    }
    assert result["metrics"]["all"]["accuracy"] == result["metrics"]["quiz"]["accuracy"]
    assert result["metrics"]["all"]["accuracy"]["n"] == 2
    assert result["metrics"]["all"]["searches"]["a"] == 6 / 4
    assert result["metrics"]["quiz"]["searches"]["a"] == 2
    assert [(won["dataset"], won["id"]) for won in result["wins"]] == [
        ("numbers", "q2"),
        ("quiz", "q1"),
    ]


@pytest.mark.parametrize(("oracle", "of"), [("a", "b"), ("b", "a")])
def test_wrong_answers_are_split_by_the_reading_ceiling(
    tmp_path: Path, oracle: str, of: str
) -> None:
    reads = [row(1, 1), row(2, 1), row(3, 1), row(4, 0), row(5, 0)]
    searches = [row(1, 1), row(2, 0), row(3, 0), row(4, 0), row(5, 1)]
    sides = {oracle: reads, of: searches}
    result = compared(tmp_path, sides["a"], sides["b"], **{oracle: "oracle"})
    # Wrong: 2, 3 (which the ceiling gets right) and 4.
    assert result["ceiling"] == {"of": of, "wrong": 3, "ceiling_right": 2, "ceiling_wrong": 1}


def test_two_oracles_have_no_ceiling(tmp_path: Path) -> None:
    assert compared(tmp_path, [row(1, 1)], [row(1, 0)], a="oracle", b="oracle")["ceiling"] is None


def test_the_table_and_the_file(tmp_path: Path, capsys: Capture) -> None:
    a = folder(tmp_path / "a", [row(n, 0) for n in range(14)], method="oracle")
    b = folder(tmp_path / "b", [row(n, 1) for n in range(12)] + [row(12, 0), row(13, 0)])
    out = tmp_path / "deep" / "out"
    done = runs.call(capsys, main, "--compare", a, b, "--out", out)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == f"A: {a} (oracle)" and lines[1] == f"B: {b}"
    assert lines[2] == "questions: 14  only in A: 0  only in B: 0  failed in A or B: 0"
    em = next(line.split() for line in lines if line.startswith("em "))
    # 12 of 14; 2 of 2^12 patterns.
    assert em[:5] == ["em", "14", "0.000", "0.857", "+0.857"]
    assert em[-1] == f"{2 / 2**12:.4f}"
    assert ["right", "0", "12"] in [line.split() for line in lines]
    assert ["answered_wrongly", "14", "2"] in [line.split() for line in lines]
    assert "B's wrong answers: 2; the reading ceiling gets 0 of them right and 2 wrong" in done.out
    won = lines.index("won by B: 12")
    assert lines[won + 1] == "  numbers/q0: four -> three 0 (three 0)"
    assert lines[won + 11] == ""  # ten are shown
    assert lines[won + 12] == "lost by B: 0"
    assert lines[-1] == f"comparison: {out / 'comparison.json'}"
    written = json.loads((out / "comparison.json").read_text())
    assert written == compare(read_evaluation(a), read_evaluation(b))
    assert len(written["wins"]) == 12
    again = runs.call(capsys, main, "--compare", a, b, "--out", out)
    assert again.status == 2 and "exists; choose another folder" in again.err


def test_a_runs_evaluation_files_are_compared_too(tmp_path: Path, capsys: Capture) -> None:
    files = [
        runs.write_rows(tmp_path / name, [row(1, em), row(2, 1)])
        for name, em in (("before.jsonl", 0), ("after.jsonl", 1))
    ]
    done = runs.call(capsys, main, "--compare", *files)
    assert done.status == 0 and "won by B: 1" in done.out
    assert f"A: {files[0]}\n" in done.out


def test_an_answer_cannot_steer_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    a = folder(tmp_path / "a", [row(1, 0, prediction="\x1b[2Jgone\r\nnext " + "x" * 90)])
    b = folder(tmp_path / "b", [row(1, 1)])
    done = runs.call(capsys, main, "--compare", a, b)
    assert "\x1b" not in done.out and "[2Jgone next xxxx" in done.out
    assert max(map(len, done.out.splitlines())) < 120 + len(str(tmp_path))


class TestErrors:
    def refused(self, capsys: Capture, *argv: object) -> str:
        done = runs.call(capsys, main, *argv)
        assert done.status == 2 and done.out == ""
        assert done.err.startswith("eval.py: error: ") and done.err.count("\n") == 1
        return done.err

    def test_no_shared_question(self, tmp_path: Path, capsys: Capture) -> None:
        a, b = folder(tmp_path / "a", [row(1, 1)]), folder(tmp_path / "b", [row(2, 1)])
        assert "share no question; evaluate both" in self.refused(capsys, "--compare", a, b)

    def test_an_unfinished_evaluation(self, tmp_path: Path, capsys: Capture) -> None:
        a, b = folder(tmp_path / "a", [row(1, 1)]), folder(tmp_path / "b", [row(1, 1)])
        (b / "summary.json").unlink()
        assert f"{b}: not finished" in self.refused(capsys, "--compare", a, b)

    def test_a_damaged_summary(self, tmp_path: Path, capsys: Capture) -> None:
        a, b = folder(tmp_path / "a", [row(1, 1)]), folder(tmp_path / "b", [row(1, 1)])
        (b / "summary.json").write_text("{")
        assert "summary.json: cannot be read" in self.refused(capsys, "--compare", a, b)

    @pytest.mark.parametrize("changes", [{"answers": ["3"]}, {"options": {"A": "x", "B": "z"}}])
    def test_other_accepted_answers(self, tmp_path: Path, capsys: Capture, changes: Row) -> None:
        a = folder(tmp_path / "a", [row(1, 1), row(3, 1)])
        b = folder(tmp_path / "b", [row(1, 1), row(3, 1, **changes)])
        assert "question 'q3' of 'numbers' has other accepted answers or options" in self.refused(
            capsys, "--compare", a, b
        )

    def test_all_failed(self, tmp_path: Path, capsys: Capture) -> None:
        a = folder(tmp_path / "a", [row(1, 0, stop_reason="model_error")])
        b = folder(tmp_path / "b", [row(1, 1)])
        assert "each shared question failed" in self.refused(capsys, "--compare", a, b)

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("[]", "not an object"),
            ('{"id": "q1"}', "missing"),
            (json.dumps(row(1, 1) | {"surprise": 1}), "surprise"),
            (json.dumps(row(1, 1) | {"id": 1}), "id and dataset must be strings"),
            (json.dumps(row(1, 1) | {"metrics": {}}), "neither accuracy nor em"),
            (json.dumps(row(1, 1) | {"metrics": {"em": "1"}}), "em must be a number"),
            (json.dumps(row(1, 1) | {"tokens": None}), "tokens must be a number"),
            (json.dumps(row(1, 1) | {"answers": "x"}), "answers a list"),
            ("{", "not JSON"),
        ],
    )
    def test_a_line_that_is_no_prediction(
        self, tmp_path: Path, capsys: Capture, line: str, said: str
    ) -> None:
        a, b = folder(tmp_path / "a", [row(1, 1)]), folder(tmp_path / "b", [])
        (b / "predictions.jsonl").write_text(f"{json.dumps(row(2, 1))}\n{line}\n")
        error = self.refused(capsys, "--compare", a, b)
        assert f"{b / 'predictions.jsonl'}: line 2: " in error and said in error

    def test_a_question_twice(self, tmp_path: Path, capsys: Capture) -> None:
        a, b = folder(tmp_path / "a", [row(1, 1)]), folder(tmp_path / "b", [row(1, 1), row(1, 0)])
        assert "line 2: question 'q1' occurs twice" in self.refused(capsys, "--compare", a, b)

    def test_nothing_there(self, tmp_path: Path, capsys: Capture) -> None:
        a = folder(tmp_path / "a", [row(1, 1)])
        assert "no such file" in self.refused(capsys, "--compare", a, tmp_path / "b.jsonl")
        (a / "predictions.jsonl").unlink()
        assert "no such file" in self.refused(capsys, "--compare", a, a)

    @pytest.mark.parametrize(
        "argv", [["--compare"], ["--compare", "a"], ["--compare", "a", "b", "--limit", "3"]]
    )
    def test_usage(self, capsys: Capture, argv: list[str]) -> None:
        assert "usage: python eval.py --compare A B" in self.refused(capsys, *argv)

    def test_out_in_the_way(self, tmp_path: Path, capsys: Capture) -> None:
        a = folder(tmp_path / "a", [row(1, 1)])
        file = tmp_path / "file"
        file.write_text("")
        assert "--out: " in self.refused(capsys, "--compare", a, a, "--out", file)


def test_a_comparison_with_itself_finds_nothing(tmp_path: Path) -> None:
    rows = [row(n, n % 2) for n in range(30)]
    result = compared(tmp_path, rows, rows)
    assert result["wins"] == result["losses"] == []
    for metric in result["metrics"]["all"].values():
        assert metric["difference"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
        assert metric["p"] == 1.0 and math.isclose(metric["a"], metric["b"])
