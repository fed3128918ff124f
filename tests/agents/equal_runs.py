"""When two runs are the same, bit for bit, but for what depends on the clock."""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.agents import runs

TIMINGS = {"seconds", "generated_tokens_per_s", "trained_tokens_per_s", "command"}


def rows(file: Path) -> list[dict[str, Any]]:
    """The objects of a file without the timings; none without it."""
    found = runs.read_rows(file) if file.exists() else []
    return [{k: v for k, v in row.items() if k not in TIMINGS} for row in found]


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows of a run."""
    board = EventAccumulator(str(folder / "tensorboard"))
    board.Reload()
    return {
        name: [(event.step, event.value) for event in board.Scalars(name)]
        for name in board.Tags()["scalars"]
        if name not in TIMINGS
    }


def equal_tensors(one: Path, other: Path) -> bool:
    """Whether two files hold the same tensors."""
    made, wanted = load_file(one), load_file(other)
    return made.keys() == wanted.keys() and all((made[key] == wanted[key]).all() for key in wanted)


def check_logs(folder: Path, expected: Path) -> None:
    """The lines of every step."""
    for name in ("metrics.jsonl", "rollouts.jsonl", "events.jsonl", "tokens.jsonl"):
        assert rows(folder / name) == rows(expected / name)


def check_last_checkpoint(folder: Path, expected: Path) -> None:
    """Parameters, moments, the sampler's place, the guard's memory, and nothing left half-done."""
    checkpoints = sorted(path.name for path in (expected / "checkpoints").iterdir())
    made, wanted = (f / "checkpoints" / checkpoints[-1] for f in (folder, expected))
    assert len(load_file(wanted / "adapter_model.safetensors")) > 10
    for name in ("adapter_model.safetensors", "optimizer.safetensors"):
        assert equal_tensors(made / name, wanted / name)
    assert (made / "state.json").read_text() == (wanted / "state.json").read_text()
    assert not [path for path in folder.rglob("*") if "writing" in path.name]


def check_equal(folder: Path, expected: Path) -> None:
    """Everything that two runs of the same configuration leave behind, but for TensorBoard."""
    check_logs(folder, expected)
    check_last_checkpoint(folder, expected)
    names = [{path.name for path in (f / "checkpoints").iterdir()} for f in (folder, expected)]
    assert names[0] == names[1]
    for name in ("before.jsonl", "after.jsonl"):
        made, wanted = (f / "evaluation" / name for f in (folder, expected))
        assert made.read_bytes() == wanted.read_bytes()
    summaries = [json.loads((f / "summary.json").read_text()) for f in (folder, expected)]
    for key in summaries[1].keys() - TIMINGS:
        assert summaries[0][key] == summaries[1][key]
