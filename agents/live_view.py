"""A training run while it goes: a table that grows on a terminal, plain lines elsewhere."""

import math
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from typing import TextIO

from tqdm import tqdm

from .progress import progress_bar

Line = Mapping[str, float | None]

# Title, key of metrics.jsonl, width, format; what a narrow terminal has no room for is left out on
# the right.
COLUMNS = (
    ("reward", "reward_mean", 8, ".3f"),
    ("EM", "em", 7, ".3f"),
    ("searches", "searches_mean", 10, ".2f"),
    ("clip", "clip_fraction", 8, ".4f"),
    ("KL", "kl_old", 9, ".5f"),
    ("invalid", "invalid_rate", 9, ".3f"),
    ("gen tok/s", "generated_tokens_per_s", 11, ".0f"),
    ("train tok/s", "trained_tokens_per_s", 13, ".0f"),
    ("seconds", "seconds", 9, ".1f"),
)
PLAIN = ("reward_mean", "em", "searches_mean", "invalid_rate", "clip_fraction", "kl_old", "seconds")
BLOCKS = "▁▂▃▄▅▆▇█"
TREND = 10  # steps in the reward's trend, and for the time left
HEAD_EVERY = 20  # rows


class LiveView:
    """Tells of every step: progress, reward, EM, searches, clip, KL, tokens/s, time left."""

    def __init__(self, steps: int, out: TextIO, width: int | None = None) -> None:
        """Start before the first row.

        Args:
            steps: Of the whole run.
            out: Where rows go; a table if it is a terminal.
            width: Of the terminal, in characters; None to ask it.
        """
        self._steps = steps
        self._out = out
        self._width = width
        self._advance: Callable[[], object] = lambda: None  # the bar's own, while there is one
        self._rows = 0
        self._rewards: deque[float] = deque(maxlen=TREND)
        self._seconds: deque[float] = deque(maxlen=TREND)

    @contextmanager
    def bar(self, done: int) -> Iterator[None]:
        """A bar of the whole run below the table, on a terminal only; `step` moves it."""
        if not self._out.isatty():
            yield
            return
        with progress_bar(self._steps, "training", "step", done) as bar:
            self._advance = bar.update
            yield

    def step(self, step: int, line: Line) -> None:
        """Write a step down, above whatever bars there are.

        Args:
            step: From 1.
            line: Its metrics.
        """
        self._rewards.append(_number(line["reward_mean"]))
        self._seconds.append(_number(line["seconds"]))
        left = _clock((self._steps - step) * median(self._seconds))
        if not self._out.isatty():
            tqdm.write(self._plain(step, line, left), file=self._out)
            return
        head, row = self._table(step, line, left)
        if self._rows % HEAD_EVERY == 0:
            tqdm.write(head, file=self._out)
        tqdm.write(row, file=self._out)
        self._rows += 1
        self._advance()

    def _plain(self, step: int, line: Line, left: str) -> str:
        shown = "  ".join(f"{key} {_number(line[key]):.3g}" for key in PLAIN)
        return f"step {step}/{self._steps}  {shown}  left {left}"

    def _table(self, step: int, line: Line, left: str) -> tuple[str, str]:
        """The head, and a step's row."""
        progress = f"{step}/{self._steps}"
        cells = [("step", progress.rjust(2 * len(str(self._steps)) + 1)), ("left", f"{left:>9}")]
        if _can_write(BLOCKS, self._out):
            cells.append(("trend", f"  {_trend(self._rewards):{TREND}}"))
        cells += [
            (title, (format(line[key], form) if _known(line[key]) else "-").rjust(width))
            for title, key, width, form in COLUMNS
        ]
        width = self._width or shutil.get_terminal_size().columns
        head = row = ""
        for title, cell in cells:
            if len(row) + len(cell) > width:
                break
            head += title.ljust(len(cell)) if title == "step" else title.rjust(len(cell))
            row += cell
        return head, row


def _trend(values: deque[float]) -> str:
    """A line of blocks, from the lowest value to the highest; a gap where there is none."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return ""
    low, span = min(known), (max(known) - min(known)) or 1.0
    top = len(BLOCKS) - 1
    return "".join(
        BLOCKS[round((value - low) / span * top)] if math.isfinite(value) else " "
        for value in values
    )


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _clock(seconds: float) -> str:
    """Hours:minutes:seconds."""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _can_write(text: str, out: TextIO) -> bool:
    """Whether the terminal's encoding has these letters."""
    try:
        text.encode(out.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
