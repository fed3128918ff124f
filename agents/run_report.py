"""report.html of a training run: curves, before and after, episodes token by token.

`python -m agents.run_report runs/x` writes it anew, of a run that still goes on too.
"""

import itertools
import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from retrieval.errors import InputError

from .command_line import read_yaml
from .page import Page, command
from .predictions import OUTCOMES
from .report import REPORT, Kind, checked, read_prediction, shown
from .writing import write_text

_PAGE = Page("run", "Training run")
_REMEDY = "a run's files are changed by the run only: restore the file, or remove the line"
# So many episodes are in the page; of long runs, those of steps spread evenly over it.
MOST_EPISODES = 400
# Of a step: as many as it kept the tokens of, up to the first; where it kept none, the second.
MOST_PER_STEP, PER_STEP = 16, 4

_ROLLOUT: dict[str, Kind] = {"step": int, "group_id": int, "total_reward": (int, float)}
_NUMBERS = ("old_logprobs", "log_ratios", "advantages")
_TOKENS: dict[str, Kind] = {
    "row": int,
    **dict.fromkeys(("ids", "pieces", "turn_ids", *_NUMBERS), list),
}
_SLOTS = ("model", "dataset", "retriever", "algorithm", "penalty", "sampling", "engine")


def write_run_report(folder: Path) -> Path:
    """Write `report.html` of a run's folder, whole or not at all.

    Args:
        folder: With the config.yaml of a run, and what it has written so far.

    Returns:
        The file.

    Raises:
        InputError: No run, a malformed file, or the report cannot be written.
    """
    if not (folder / "config.yaml").exists():
        raise InputError(f"{folder}: has no config.yaml, so it is no run; give a run's folder")
    file = folder / REPORT
    try:
        write_text(file, _PAGE.render(_content(folder)))
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}; free its place") from error
    return file


def _content(folder: Path) -> dict[str, Any]:
    config = read_yaml(folder / "config.yaml", {})
    metrics = [row for _, row in _rows(folder / "metrics.jsonl")]
    run = _section(config, "run")
    kept = run.get("token_transcripts")
    per_step = min(kept, MOST_PER_STEP) if isinstance(kept, int) and kept > 0 else PER_STEP
    steps = _spread([row["step"] for row in metrics], max(2, MOST_EPISODES // per_step))
    return {
        "name": folder.resolve().name,
        "config": (folder / "config.yaml").read_text(encoding="utf-8"),
        "slots": {name: _section(config, name).get("name") for name in _SLOTS},
        "planned": run.get("steps"),
        "metrics": _columns(metrics),
        "events": [_plain(row) for _, row in _rows(folder / "events.jsonl")],
        "summary": _summary(folder / "summary.json"),
        "outcomes": OUTCOMES,
        "episodes": _episodes(folder, set(steps), per_step),
    }


def _section(config: dict[str, Any], name: str) -> dict[str, Any]:
    value = config.get(name)
    return value if isinstance(value, dict) else {}


def _spread(steps: Sequence[int], most: int) -> list[int]:
    """At most so many of the steps, first and last among them."""
    if len(steps) <= most:
        return list(steps)
    return [steps[round(place * (len(steps) - 1) / (most - 1))] for place in range(most)]


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Name -> a number or None for every step, of all that is ever a number."""
    known = [
        {name: value for name, value in row.items() if isinstance(value, int | float)}
        for row in rows
    ]
    names = dict.fromkeys(name for row in known for name in row)
    return {name: [row.get(name) for row in known] for name in names}


def _plain(event: dict[str, Any]) -> dict[str, Any]:
    """What of an event fits a cell of a table."""
    return {k: v for k, v in event.items() if v is None or isinstance(v, str | int | float)}


def _summary(file: Path) -> dict[str, Any] | None:
    if not file.exists():
        return None
    try:
        return checked(json.loads(file.read_bytes()), {"n": int}, str(file), _REMEDY)
    except ValueError as error:
        raise InputError(f"{file}: not JSON ({error}); {_REMEDY}") from error


def _episodes(folder: Path, steps: set[int], per_step: int) -> list[dict[str, Any]]:
    """Those shown: of a step the ones whose tokens were kept, or else a few drawn at random."""
    traces: dict[int, dict[int, dict[str, Any]]] = {}
    for place, row in _rows(folder / "tokens.jsonl"):
        known = traces.setdefault(row["step"], {})
        if row["step"] in steps and len(known) < per_step:
            _check_tokens(row, place)
            known[row["row"]] = {name: row[name] for name in _TOKENS if name != "row"}
    lines = _rows(folder / "rollouts.jsonl")
    episodes = []
    for step, group in itertools.groupby(lines, lambda line: int(line[1]["step"])):
        played = list(group) if step in steps else []
        known = traces.get(step) or {}
        drawn = random.Random(step).sample(range(len(played)), min(PER_STEP, len(played)))
        for index in sorted(known or drawn):
            if index < len(played):
                place, row = played[index]
                checked(row, _ROLLOUT, place, _REMEDY)
                more = {name: row[name] for name in _ROLLOUT}
                trace = {"row": index, "trace": known.get(index)}
                episodes.append(shown(read_prediction(row, place, _REMEDY)) | more | trace)
    return episodes


def _check_tokens(row: dict[str, Any], place: str) -> None:
    checked(row, _TOKENS, place, _REMEDY)
    written = sum(isinstance(turn, int) and turn >= 0 for turn in row["turn_ids"])
    lengths = [len(row[name]) for name in ("ids", "pieces", "turn_ids")]
    if len(set(lengths)) > 1 or any(len(row[name]) != written for name in _NUMBERS):
        raise InputError(f"{place}: its lists differ in length; {_REMEDY}")


def _rows(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and object of each line of a file that may be missing; each object has its step.

    A last line that a run is still writing is left out.
    """
    if not file.exists():
        return
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            place = f"{file}: line {number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                if not line.endswith(b"\n"):
                    return
                raise InputError(f"{place}: not JSON ({error}); {_REMEDY}") from error
            yield place, checked(row, {"step": int}, place, _REMEDY)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; 2 for bad input."""
    return command(
        "agents.run_report",
        __doc__,
        "run's folder, such as runs/quickstart",
        write_run_report,
        argv,
    )


if __name__ == "__main__":
    sys.exit(main())
