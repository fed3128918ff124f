"""`eval.py --compare A B`: two evaluations of the same questions, question by question."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from retrieval.errors import InputError
from retrieval.rows import read_rows

from .comparison_table import table
from .metrics import write_json
from .predictions import OUTCOMES, Prediction
from .statistics import paired_bootstrap, paired_permutation
from .writing import check_creatable

# The headline metrics, then the others, in the order of the table.
METRICS = ("accuracy", "em", "f1", "searches", "tokens")
ORACLE = "oracle"  # the method that reads the evidence itself: a ceiling for reading
_NUMBERS = ("searches", "turns", "tokens")

Pair = tuple[Prediction, Prediction]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One side of a comparison.

    Attributes:
        path: A folder of results, or one file of predictions.
        method: What `summary.json` says; "" for a file.
        predictions: (dataset, id) -> prediction, without the steps.
    """

    path: Path
    method: str
    predictions: dict[tuple[str, str], Prediction]


def main(argv: Sequence[str]) -> int:
    """Run the command.

    Returns:
        The exit status: 0, or 2 for bad input.
    """
    try:
        flags = _parser().parse_args(list(argv))
        out = Path(flags.out) if flags.out else None
        if out:
            _check_out(out)
        comparison = compare(*(read_evaluation(Path(path)) for path in flags.compare))
        if out:
            _write(out, comparison)
    except InputError as error:
        print(f"eval.py: error: {error}", file=sys.stderr)
        return 2
    print(table(comparison))
    if out:
        print(f"comparison: {out / 'comparison.json'}")
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; usage: python eval.py --compare A B [--out FOLDER]")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="eval.py", description="Compare two evaluations.", allow_abbrev=False)
    parser.add_argument(
        "--compare", nargs=2, required=True, help="Folders of results, or files of predictions."
    )
    parser.add_argument("--out", help="A folder for comparison.json, with all wins and losses.")
    return parser


def _check_out(out: Path) -> None:
    check_creatable("--out", out)
    if (out / "comparison.json").exists():
        raise InputError(f"--out: {out / 'comparison.json'} exists; choose another folder")


def _write(out: Path, comparison: dict[str, Any]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "comparison.json", comparison)
    except OSError as error:
        raise InputError(f"--out: cannot write {out}: {error.strerror}; choose another") from error


def read_evaluation(path: Path) -> Evaluation:
    """A folder of results, or a file such as a run's `evaluation/after.jsonl`.

    Raises:
        InputError: Nothing is there, the evaluation is not finished, or a line is no prediction.
    """
    if not path.is_dir():
        return Evaluation(path, "", _predictions(path))
    if not (path / "summary.json").exists():
        raise InputError(f"{path}: not finished, it has no summary.json; evaluate it again")
    try:
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}/summary.json: cannot be read; evaluate it again") from error
    method = summary.get("method") if isinstance(summary, dict) else None
    return Evaluation(path, str(method or ""), _predictions(path / "predictions.jsonl"))


def _predictions(file: Path) -> dict[tuple[str, str], Prediction]:
    found: dict[tuple[str, str], Prediction] = {}
    for place, row in read_rows(file, ()):
        try:
            prediction = _prediction(row)
        except (TypeError, ValueError, KeyError) as error:
            raise InputError(
                f"{file}: {place}: no prediction ({error}); give what eval.py wrote"
            ) from error
        key = (prediction.dataset, prediction.id)
        if key in found:
            raise InputError(f"{file}: {place}: question {key[1]!r} occurs twice; keep one of them")
        found[key] = prediction
    return found


def _prediction(row: object) -> Prediction:
    if not isinstance(row, dict):
        raise TypeError("not an object")
    prediction = Prediction(**row)
    metrics = prediction.metrics
    if not (isinstance(prediction.id, str) and isinstance(prediction.dataset, str)):
        raise TypeError("id and dataset must be strings")
    if not (isinstance(metrics, dict) and isinstance(prediction.answers, list)):
        raise TypeError("metrics must be an object, answers a list")
    for name, value in [*metrics.items(), *((n, row[n]) for n in _NUMBERS)]:
        if not isinstance(value, int | float):
            raise TypeError(f"{name} must be a number")
    if not {"accuracy", "em"} & set(metrics):
        raise TypeError("metrics hold neither accuracy nor em")
    return replace(prediction, steps=(), answers=tuple(map(str, prediction.answers)))


def compare(a: Evaluation, b: Evaluation) -> dict[str, Any]:
    """What is the same and what differs, as `comparison.json` holds it.

    Only pairs in which neither episode failed are compared. Differences are B - A.

    Returns:
        a, b (path, method, outcomes), n, only_a, only_b, failed, metrics ({"all" or a dataset:
        {metric: {n, a, b, difference: {mean, low, high}, p}}}), wins and losses of B (dataset, id,
        answers, a, b), and ceiling (of, wrong, ceiling_right, ceiling_wrong; None unless just one
        of the two is the oracle method's).

    Raises:
        InputError: No shared question, a shared one with other accepted answers, or no pair
            without a failed episode.
    """
    shared = [key for key in a.predictions if key in b.predictions]
    if not shared:
        raise InputError(
            f"--compare: {a.path} and {b.path} share no question; evaluate both on the same dataset"
        )
    pairs = [(a.predictions[key], b.predictions[key]) for key in shared]
    for one, other in pairs:
        if (one.answers, one.options) != (other.answers, other.options):
            raise InputError(
                f"--compare: question {one.id!r} of {one.dataset!r} has other accepted answers "
                f"or options in {a.path} than in {b.path}; evaluate both on the same dataset"
            )
    scored = [pair for pair in pairs if not (pair[0].failed or pair[1].failed)]
    if not scored:
        raise InputError("--compare: each shared question failed in A or B; evaluate them again")
    return {
        "a": _side(a, [one for one, _ in scored]),
        "b": _side(b, [other for _, other in scored]),
        "n": len(scored),
        "only_a": len(a.predictions) - len(shared),
        "only_b": len(b.predictions) - len(shared),
        "failed": len(pairs) - len(scored),
        "metrics": _by_dataset(scored),
        "wins": [_shown(pair) for pair in scored if pair[1].score > pair[0].score],
        "losses": [_shown(pair) for pair in scored if pair[1].score < pair[0].score],
        "ceiling": _ceiling(a, b, scored),
    }


def _side(evaluation: Evaluation, scored: Sequence[Prediction]) -> dict[str, Any]:
    counts = Counter(prediction.outcome for prediction in scored)
    outcomes = {name: counts[name] for name in OUTCOMES if counts[name]}
    return {"path": str(evaluation.path), "method": evaluation.method, "outcomes": outcomes}


def _by_dataset(scored: Sequence[Pair]) -> dict[str, Any]:
    names = sorted({one.dataset for one, _ in scored})
    groups = {name: [pair for pair in scored if pair[0].dataset == name] for name in names}
    groups = {"all": list(scored)} | (groups if len(groups) > 1 else {})
    return {
        name: {metric: result for metric in METRICS if (result := _result(pairs, metric))}
        for name, pairs in groups.items()
    }


def _result(pairs: Sequence[Pair], metric: str) -> dict[str, Any] | None:
    """Over the pairs that both have the metric; None without one."""
    values = [(_value(one, metric), _value(other, metric)) for one, other in pairs]
    known = [(x, y) for x, y in values if x is not None and y is not None]
    if not known:
        return None
    before, after = [x for x, _ in known], [y for _, y in known]
    return {
        "n": len(known),
        "a": sum(before) / len(known),
        "b": sum(after) / len(known),
        "difference": paired_bootstrap(after, before),
        "p": paired_permutation(after, before),
    }


def _value(prediction: Prediction, metric: str) -> float | None:
    if metric in ("searches", "tokens"):
        return float(getattr(prediction, metric))
    return prediction.metrics.get(metric)


def _shown(pair: Pair) -> dict[str, Any]:
    one, other = pair
    return {
        "dataset": one.dataset,
        "id": one.id,
        "answers": list(one.answers),
        "a": one.prediction,
        "b": other.prediction,
    }


def _ceiling(a: Evaluation, b: Evaluation, scored: Sequence[Pair]) -> dict[str, Any] | None:
    """The other method's wrong answers, split by whether reading the evidence was enough."""
    if (a.method == ORACLE) == (b.method == ORACLE):
        return None
    place = 0 if a.method == ORACLE else 1
    wrong = [pair for pair in scored if not pair[1 - place].score]
    right = sum(pair[place].score > 0 for pair in wrong)
    return {
        "of": "b" if place == 0 else "a",
        "wrong": len(wrong),
        "ceiling_right": right,
        "ceiling_wrong": len(wrong) - right,
    }
