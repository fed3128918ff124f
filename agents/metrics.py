"""What a run writes: its JSON Lines, TensorBoard, and Weights & Biases if wanted."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from .predictions import of_trajectory, to_prediction
from .types import Trajectory
from .wandb_run import WandbRun
from .writing import write_text, writing_to


class RunLog:
    """Appends to a run's files; opened again, it drops what lies beyond the step it resumes at."""

    def __init__(self, folder: Path, first_step: int, wandb: WandbRun | None = None) -> None:
        """Open the logs.

        Args:
            folder: The run's.
            first_step: Lines of this and later steps, left by an interrupted run, are removed.
            wandb: Gets the metrics too; closed with the logs.
        """
        self._folder = folder
        self._metrics = folder / "metrics.jsonl"
        self._rollouts = folder / "rollouts.jsonl"
        self._events = folder / "events.jsonl"
        self._tokens = folder / "tokens.jsonl"
        with writing_to(folder):
            for file in (self._metrics, self._rollouts, self._events, self._tokens):
                _truncate(file, first_step)
            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=first_step)
        self._wandb = wandb

    def write(
        self,
        step: int,
        metrics: Mapping[str, float | None],
        trajectories: Sequence[Trajectory],
        tokens: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """One step: a line of metrics, a line per episode, a line per token transcript.

        JSON knows neither NaN nor infinity: they are null there, and themselves in TensorBoard.
        """
        episodes = [
            {"step": step, "group_id": t.group_id, "total_reward": t.reward}
            | to_prediction(of_trajectory(t)).to_json()
            for t in trajectories
        ]
        scalars = {name: value for name, value in metrics.items() if value is not None}
        with writing_to(self._folder):
            _append(self._metrics, [{"step": step, **_json(metrics)}])
            _append(self._rollouts, episodes)
            if tokens:
                _append(self._tokens, [{"step": step, **row} for row in tokens])
            for name, value in scalars.items():
                self._board.add_scalar(name, value, step)
            # A checkpoint may follow: a run that is killed after it has to find these on disk.
            self._board.flush()
        if self._wandb is not None:
            self._wandb.log(step, scalars)

    def event(self, event: Mapping[str, Any]) -> None:
        """One line of events.jsonl; NaN and infinity are null."""
        with writing_to(self._folder):
            _append(self._events, [_json(event)])

    def close(self) -> None:
        """Flush what is not on disk yet."""
        with writing_to(self._folder):
            self._board.close()
        if self._wandb is not None:
            self._wandb.close()


def past_lines(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl so far, once `RunLog` has opened it."""
    file = folder / "metrics.jsonl"
    return read_lines(file) if file.exists() else []


def write_json(file: Path, content: Any) -> None:
    """Write a JSON file whole or not at all."""
    write_text(file, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_lines(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a JSON Lines file whole or not at all."""
    write_text(file, "".join(map(_line, rows)))


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file."""
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _append(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.writelines(map(_line, rows))


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _json(values: Mapping[str, Any]) -> dict[str, Any]:
    lost = {name for name, v in values.items() if isinstance(v, float) and not math.isfinite(v)}
    return {name: None if name in lost else value for name, value in values.items()}


def _truncate(file: Path, first_step: int) -> None:
    if not file.exists():
        return
    kept = []
    # As bytes: the line a killed run was writing may end inside a letter.
    with file.open("rb") as lines:
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:
                break
            if row["step"] < first_step:
                kept.append(row)
    write_lines(file, kept)
