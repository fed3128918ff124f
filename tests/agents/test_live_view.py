"""What a terminal shows of a run, and what a log keeps of it."""

import io
import math
from typing import Any

import pytest

from agents import progress
from agents.live_view import HEAD_EVERY, LiveView

LINE = {
    "reward_mean": 0.25,
    "em": 0.125,
    "searches_mean": 1.5,
    "invalid_rate": 0.0,
    "clip_fraction": 0.01,
    "kl_old": 0.002,
    "generated_tokens_per_s": 310.4,
    "trained_tokens_per_s": None,
    "seconds": 61.0,
}


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Ascii(Terminal):
    encoding = "ascii"


def told(out: io.StringIO, lines: list[dict[str, Any]], width: int = 200) -> list[str]:
    view = LiveView(len(lines) + 90, out, width)
    for step, line in enumerate(lines, 1):
        view.step(step, LINE | line)
    return out.getvalue().splitlines()


def test_a_log_gets_one_plain_line_a_step() -> None:
    (line,) = told(io.StringIO(), [{}])
    assert line == (
        "step 1/91  reward_mean 0.25  em 0.125  searches_mean 1.5  invalid_rate 0  "
        "clip_fraction 0.01  kl_old 0.002  seconds 61  left 1:31:30"  # 90 x 61 s
    )
    assert line.isascii() and line.isprintable()


def test_a_terminal_gets_an_aligned_table() -> None:
    head, row = told(Terminal(), [{}])
    # Every number ends below the end of its title.
    ends = {title: head.index(title) + len(title) for title in ("left", "reward", "EM", "KL")}
    assert row[: ends["left"]].endswith("1:31:30") and row[: ends["reward"]].endswith(" 0.250")
    assert row[: ends["EM"]].endswith(" 0.125") and row[: ends["KL"]].endswith(" 0.00200")
    assert row.startswith(" 1/91")
    assert row.endswith("310            -     61.0")  # no token was trained


def test_the_trend_runs_from_the_lowest_to_the_highest_reward() -> None:
    rewards = [0.0, 1.0, 0.5, math.nan, 0.25]
    rows = told(Terminal(), [{"reward_mean": reward} for reward in rewards])
    # Eighths of the range: 0 -> 0, 1 -> 7, 0.5 -> 3.5 (to even: 4), 0.25 -> 1.75 (2).
    assert "▁█▅ ▃" in rows[-1]
    assert "▁" in told(Terminal(), [{}])[1], "one value is the lowest"


def test_the_time_left_is_the_median_of_the_last_steps() -> None:
    rows = told(io.StringIO(), [{"seconds": s} for s in (1000.0, 10.0, 20.0, 30.0, 2000.0)])
    assert rows[-1].endswith("left 0:45:00")  # 90 steps of 30 s


def test_the_head_comes_again() -> None:
    rows = told(Terminal(), [{}] * (HEAD_EVERY + 1))
    assert [number for number, row in enumerate(rows) if "reward" in row] == [0, HEAD_EVERY + 1]


@pytest.mark.parametrize("width", [20, 40, 79, 120])
def test_a_narrow_terminal_gets_what_it_has_room_for(width: int) -> None:
    head, row = told(Terminal(), [{}], width)
    assert max(len(head), len(row)) <= width
    assert ("reward" in head) == (width >= 40)


def test_a_terminal_without_blocks_gets_no_trend() -> None:
    assert all(row.isascii() for row in told(Ascii(), [{}, {}]))


def test_without_a_terminal_progress_is_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 10.0, 30.0, 40.0, 61.0, 100.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.progress_bar(50, "warm start", "step", done=4) as bar:
        for _ in range(3):
            bar.update()
        bar.set_postfix(loss="0.5")
        bar.update(3)
        bar.update(40)  # all done: whoever is told that is told by the caller
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "warm start: 6 of 50 steps\nwarm start: 10 of 50 steps, loss 0.5\n"
