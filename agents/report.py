"""report.html of an evaluation: one file that a browser reads without a network.

`python -m agents.report results/default` writes it anew.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from retrieval.errors import InputError
from retrieval.rows import read_rows

from .evaluation import summarize
from .page import Page, command
from .predictions import OUTCOMES, Prediction
from .writing import write_text

REPORT = "report.html"
_PAGE = Page("evaluation", "Evaluation")
_AGAIN = "run the evaluation again"

Kind = type | tuple[type, ...]

_EPISODE: dict[str, Kind] = {
    **dict.fromkeys(("id", "dataset", "question", "stop_reason", "outcome"), str),
    **dict.fromkeys(("searches", "turns", "invalid", "tokens", "truncated"), int),
    **dict.fromkeys(("answers", "steps", "evidence"), list),
    "prediction": (str, type(None)),
    "metrics": dict,
    "options": (dict, type(None)),
}
_STEP: dict[str, Kind] = {
    **dict.fromkeys(("text", "action", "content", "observation"), str),
    "hits": list,
    "reward": (int, float),
}
_HIT: dict[str, Kind] = {"id": str, "title": str}


def write_report(folder: Path) -> Path:
    """Write `report.html` of a results folder, whole or not at all.

    Args:
        folder: With the config.yaml, predictions.jsonl and summary.json of an evaluation.

    Returns:
        The file.

    Raises:
        InputError: A file is missing or malformed, or the report cannot be written.
    """
    summary = _read_summary(folder)
    predictions = read_predictions(folder / "predictions.jsonl")
    content = {
        "summary": summary,
        "datasets": _by_dataset(summary, predictions),
        "config": _read(folder, "config.yaml"),
        "outcomes": OUTCOMES,
        "episodes": [shown(prediction) for prediction in predictions],
    }
    file = folder / REPORT
    try:
        write_text(file, _PAGE.render(content))
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}; free its place") from error
    return file


def read_predictions(file: Path) -> list[Prediction]:
    """The predictions of an evaluation, old ones with the defaults of what they lack.

    Raises:
        InputError: The file is missing, or a line is no prediction.
    """
    _check_finished(file)
    return [read_prediction(row, f"{file}: {place}") for place, row in read_rows(file, ())]


def shown(prediction: Prediction) -> dict[str, Any]:
    """An episode as a page's script reads it."""
    more = {"score": prediction.score, "failed": prediction.failed, "outcome": _outcome(prediction)}
    return prediction.to_json() | more


def read_prediction(row: object, place: str, remedy: str = _AGAIN) -> Prediction:
    """A line that holds a prediction, and perhaps more.

    Args:
        row: The line's value.
        place: Where it stands, for messages.
        remedy: What to do about a bad one.

    Raises:
        InputError: It is no prediction.
    """
    known = checked(row, {}, place, remedy)
    names = {field.name for field in fields(Prediction)}
    values = {name: value for name, value in known.items() if name in names}
    try:
        found = Prediction(**values)
    except TypeError as error:
        raise InputError(f"{place}: {str(error).partition(' ')[2]}; {remedy}") from error
    checked(values, {name: _EPISODE[name] for name in values}, place, remedy)
    for step in found.steps:
        for hit in checked(step, _STEP, f"{place}: a turn", remedy)["hits"]:
            checked(hit, _HIT, f"{place}: a hit", remedy)
    if not {"accuracy", "em"} & found.metrics.keys():
        raise InputError(f"{place}: metrics holds no accuracy and no em; {remedy}")
    return replace(found, answers=tuple(found.answers), steps=tuple(found.steps))


def checked(
    value: object, kinds: Mapping[str, Kind], place: str, remedy: str = _AGAIN
) -> dict[str, Any]:
    """The value, if it is an object whose fields are of these types.

    Raises:
        InputError: It is not.
    """
    if not isinstance(value, dict):
        raise InputError(f"{place} is no JSON object; {remedy}")
    for name, kind in kinds.items():
        if not isinstance(value.get(name), kind):
            raise InputError(f"{place}: {name} is {value.get(name)!r:.40}; {remedy}")
    return value


def _outcome(prediction: Prediction) -> str:
    """A key of OUTCOMES also where an old line has none."""
    if prediction.outcome:
        return prediction.outcome
    return "failed" if prediction.failed else "right" if prediction.score else "wrong"


def _read_summary(folder: Path) -> dict[str, Any]:
    text = _read(folder, "summary.json")
    try:
        summary = json.loads(text)
    except ValueError as error:
        raise InputError(
            f"{folder / 'summary.json'}: not JSON ({error}); run the evaluation again"
        ) from error
    return checked(summary, {"n": int}, str(folder / "summary.json"))


def _read(folder: Path, name: str) -> str:
    file = folder / name
    _check_finished(file)
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read ({error}); run the evaluation again") from error


def _check_finished(file: Path) -> None:
    if not file.exists():
        raise InputError(
            f"{file.parent}: has no {file.name}, so it holds no finished evaluation; let eval.py "
            "finish there"
        )


def _by_dataset(
    summary: Mapping[str, Any], predictions: Sequence[Prediction]
) -> dict[str, dict[str, Any]]:
    """Dataset -> its part of the summary; taken from the predictions where the summary has none."""
    written = summary.get("datasets")
    if isinstance(written, dict) and all(isinstance(part, dict) for part in written.values()):
        return written
    groups: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        groups.setdefault(prediction.dataset, []).append(prediction)
    return {name: summarize(group) for name, group in groups.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """The command; 2 for bad input."""
    return command(
        "agents.report", __doc__, "results folder, such as results/default", write_report, argv
    )


if __name__ == "__main__":
    sys.exit(main())
