"""A run's files: what they hold, and what is left of them when a run goes on."""

import json
import math

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agents import metrics
from agents.metrics import RunLog
from agents.rollout import demonstrate
from tests.agents import builds

# Line separators to str.splitlines but not to JSON Lines, and letters of 2 to 4 bytes.
TEXT = "a\u2028b\u2029c\x85d\x1ce\r\nf é 東 \U0001f600 <answer>x</answer>"


@pytest.fixture(scope="module")
def episode(policy):
    rollout = builds.build_rollout(builds.ScriptedEngine(lambda row, turn: []), policy)
    question = builds.world().questions[0]
    return demonstrate(question, [TEXT], rollout.make_env(), rollout.framing, group_id=5)


def lines(file):
    return [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]]


def write(folder, first, last, episode, value=0.5):
    log = RunLog(folder, first)
    for step in range(first, last + 1):
        log.write(step, {"reward_mean": value, "value_loss": None}, [episode, episode])
    log.close()


def test_a_step_is_a_line_and_an_episode_is_a_line(tmp_path, episode) -> None:
    write(tmp_path, 1, 3, episode)
    assert lines(tmp_path / "metrics.jsonl") == [
        {"step": step, "reward_mean": 0.5, "value_loss": None} for step in (1, 2, 3)
    ]
    rows = lines(tmp_path / "rollouts.jsonl")
    assert [row["step"] for row in rows] == [1, 1, 2, 2, 3, 3]
    assert rows[0]["group_id"] == 5 and rows[0]["total_reward"] == episode.reward
    assert rows[0]["steps"][0]["text"] == TEXT
    assert metrics.read_lines(tmp_path / "rollouts.jsonl") == rows


def test_going_on_drops_what_lies_beyond_the_checkpoint(tmp_path, episode) -> None:
    write(tmp_path, 1, 5, episode)
    write(tmp_path, 3, 4, episode, value=0.75)
    assert [(r["step"], r["reward_mean"]) for r in lines(tmp_path / "metrics.jsonl")] == [
        (1, 0.5),
        (2, 0.5),
        (3, 0.75),
        (4, 0.75),
    ]
    steps = [row["step"] for row in lines(tmp_path / "rollouts.jsonl")]
    assert steps == [1, 1, 2, 2, 3, 3, 4, 4]


def test_going_on_gives_the_files_of_an_uninterrupted_run(tmp_path, episode) -> None:
    for name in ("whole", "broken"):
        (tmp_path / name).mkdir()
    write(tmp_path / "whole", 1, 4, episode)
    write(tmp_path / "broken", 1, 3, episode)
    write(tmp_path / "broken", 3, 4, episode)
    for name in ("metrics.jsonl", "rollouts.jsonl"):
        whole, broken = ((tmp_path / run / name).read_bytes() for run in ("whole", "broken"))
        assert whole == broken


def test_a_line_cut_anywhere_is_dropped(tmp_path, episode) -> None:
    """A killed run may leave half a line, cut even inside a letter of several bytes."""
    write(tmp_path, 1, 2, episode)
    file = tmp_path / "rollouts.jsonl"
    whole = file.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    expected = [json.loads(line) for line in whole[:start].splitlines(keepends=False) if line]
    inside = [i for i in range(start, len(whole)) if whole[i] >= 0x80]
    assert len(inside) > 10
    for end in sorted({*inside, *range(start + 1, len(whole) - 1, 25)}):
        file.write_bytes(whole[:end])
        RunLog(tmp_path, 3).close()
        assert lines(file) == expected, end


def test_a_whole_line_without_its_newline_is_kept(tmp_path, episode) -> None:
    write(tmp_path, 1, 2, episode)
    file = tmp_path / "metrics.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    RunLog(tmp_path, 3).close()
    assert file.read_bytes() == whole


def test_tensorboard_has_every_number_once(tmp_path, episode) -> None:
    write(tmp_path, 1, 4, episode, value=0.25)
    write(tmp_path, 3, 5, episode, value=0.75)
    board = EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    assert board.Tags()["scalars"] == ["reward_mean"]
    points = [(event.step, event.value) for event in board.Scalars("reward_mean")]
    assert points == [(1, 0.25), (2, 0.25), (3, 0.75), (4, 0.75), (5, 0.75)]


def test_a_step_written_is_on_disk_whatever_happens_next(tmp_path, episode) -> None:
    # A checkpoint may follow, and then a kill: what was queued would be missing for ever.
    log = RunLog(tmp_path, 1)
    for step in (1, 2, 3):
        log.write(step, {"reward_mean": 0.5}, [episode])
        board = EventAccumulator(str(tmp_path / "tensorboard"))
        board.Reload()
        assert [event.step for event in board.Scalars("reward_mean")] == list(range(1, step + 1))
    log.close()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_json_does_not_know_is_null(tmp_path, episode, value) -> None:
    write(tmp_path, 1, 1, episode, value=value)

    def refuse(name: str):
        raise AssertionError(f"{name} is not JSON")

    text = (tmp_path / "metrics.jsonl").read_text()
    assert json.loads(text, parse_constant=refuse)["reward_mean"] is None


def test_a_json_file_is_written_whole_or_not_at_all(tmp_path) -> None:
    file = tmp_path / "summary.json"
    metrics.write_json(file, {"é": 1})
    assert json.loads(file.read_text(encoding="utf-8")) == {"é": 1}
    with pytest.raises(TypeError):
        metrics.write_json(file, {"bad": object()})
    assert json.loads(file.read_text(encoding="utf-8")) == {"é": 1}
    metrics.write_json(file, [])
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_json_lines_are_written_whole_or_not_at_all(tmp_path) -> None:
    file = tmp_path / "after.jsonl"
    metrics.write_lines(file, [{"text": TEXT}, {"text": ""}])
    assert metrics.read_lines(file) == [{"text": TEXT}, {"text": ""}]
    with pytest.raises(TypeError):
        metrics.write_lines(file, [{"text": ""}, {"bad": object()}])
    assert metrics.read_lines(file) == [{"text": TEXT}, {"text": ""}]
    metrics.write_lines(file, [])
    assert file.read_bytes() == b""
    assert [path.name for path in tmp_path.iterdir()] == ["after.jsonl"]


def test_token_transcripts_are_lines_and_are_cut_back_as_the_others(tmp_path, episode) -> None:
    log = RunLog(tmp_path, 1)
    for step in (1, 2, 3):
        log.write(step, {"reward_mean": 0.5}, [episode], [{"row": 0}, {"row": 4}])
    log.close()
    RunLog(tmp_path, 3).close()
    assert lines(tmp_path / "tokens.jsonl") == [
        {"step": step, "row": row} for step in (1, 2) for row in (0, 4)
    ]
