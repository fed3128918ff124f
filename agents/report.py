"""report.html of an evaluation: one file that a browser reads without a network.

`python -m agents.report results/default` writes it anew.
"""

import argparse
import base64
import gzip
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from retrieval.errors import InputError
from retrieval.rows import read_rows
from retrieval.server.page import sources

from .evaluation import summarize
from .predictions import OUTCOMES, Prediction
from .writing import write_text

REPORT = "report.html"
_PAGE = (Path(__file__).parent / "report.html").read_text(encoding="utf-8")
# Only the page's own script and style, by their hashes, and no address at all: should text of a
# model ever be read as markup, it still runs nothing and asks nobody.
_POLICY = (
    f"default-src 'none'; script-src {sources(_PAGE, 'script')}; "
    f"style-src {sources(_PAGE, 'style')}; img-src data:; base-uri 'none'; form-action 'none'"
)
# "<" and its like could end the script element. A lone surrogate is none of UTF-8's letters.
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
# Episodes beyond this many characters are gzipped; a browser unpacks them before it shows them.
_MOST_PLAIN = 50_000_000

_EPISODE: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("id", "dataset", "question", "stop_reason", "outcome"), str),
    **dict.fromkeys(("searches", "turns", "invalid", "tokens", "truncated"), int),
    **dict.fromkeys(("answers", "steps", "evidence"), list),
    "prediction": (str, type(None)),
    "metrics": dict,
    "options": (dict, type(None)),
}
_STEP: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("text", "action", "content", "observation"), str),
    "hits": list,
    "reward": (int, float),
}
_HIT: dict[str, type | tuple[type, ...]] = {"id": str, "title": str}


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
        "episodes": [
            p.to_json() | {"score": p.score, "failed": p.failed, "outcome": _outcome(p)}
            for p in predictions
        ],
    }
    file = folder / REPORT
    try:
        write_text(file, render(content))
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}; free its place") from error
    return file


def render(content: Mapping[str, Any], most_plain: int = _MOST_PLAIN) -> str:
    """The page with its data in it.

    Args:
        content: What the page's script reads.
        most_plain: Data of more characters are packed.
    """
    data, packing = embed(content), "none"
    if len(data) > most_plain:
        packed = gzip.compress(data.encode(), mtime=0)
        data, packing = base64.b64encode(packed).decode(), "gzip"
    head, _, tail = _PAGE.partition("__DATA__")
    return head.replace("__POLICY__", _POLICY).replace("__PACKING__", packing) + data + tail


def embed(value: Any) -> str:
    """JSON that may stand inside a script element, whatever text it holds.

    JSON knows neither NaN nor infinity: they become null.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        known = json.loads(json.dumps(value), parse_constant=lambda name: None)
        text = json.dumps(known, ensure_ascii=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def read_predictions(file: Path) -> list[Prediction]:
    """The predictions of an evaluation, old ones with the defaults of what they lack.

    Raises:
        InputError: The file is missing, or a line is no prediction.
    """
    _check_finished(file)
    return [_prediction(row, f"{file}: {place}") for place, row in read_rows(file, ())]


def _prediction(row: object, place: str) -> Prediction:
    known = _checked(row, {}, place)
    names = {field.name for field in fields(Prediction)}
    values = {name: value for name, value in known.items() if name in names}
    try:
        found = Prediction(**values)
    except TypeError as error:
        raise InputError(
            f"{place}: {str(error).partition(' ')[2]}; run the evaluation again"
        ) from error
    _checked(values, {name: _EPISODE[name] for name in values}, place)
    for step in found.steps:
        for hit in _checked(step, _STEP, f"{place}: a turn")["hits"]:
            _checked(hit, _HIT, f"{place}: a hit")
    if not {"accuracy", "em"} & found.metrics.keys():
        raise InputError(f"{place}: metrics holds no accuracy and no em; run the evaluation again")
    return replace(found, answers=tuple(found.answers), steps=tuple(found.steps))


def _checked(
    value: object, kinds: Mapping[str, type | tuple[type, ...]], place: str
) -> dict[str, Any]:
    """The value, if it is an object whose fields are of these types."""
    if not isinstance(value, dict):
        raise InputError(f"{place} is no JSON object; run the evaluation again")
    for name, kind in kinds.items():
        if not isinstance(value.get(name), kind):
            raise InputError(
                f"{place}: {name} is {value.get(name)!r:.40}; run the evaluation again"
            )
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
    return _checked(summary, {"n": int}, str(folder / "summary.json"))


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
    parser = argparse.ArgumentParser(prog="python -m agents.report", description=__doc__)
    parser.add_argument("folder", nargs="*", help="Results of eval.py, such as results/default.")
    given, unknown = parser.parse_known_args(argv)
    try:
        if unknown or len(given.folder) != 1:
            raise InputError("give one results folder, such as results/default, and nothing else")
        print(write_report(Path(given.folder[0])))
    except InputError as error:
        print(f"report: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
