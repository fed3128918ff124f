"""One episode with its action mask, for a terminal: what is trained on, and what is only read."""

from collections.abc import Callable, Sequence

from .interactive import printable
from .types import Trajectory

_DIM, _SHADES, _END = "\x1b[2m", ("\x1b[30;42m", "\x1b[30;102m"), "\x1b[0m"


def show_mask(
    trajectory: Trajectory, pieces: Callable[[Sequence[int]], list[str]], colour: bool
) -> str:
    """The episode in lines: "prompt |", "read |" for context, "action >" for sampled tokens.

    Args:
        trajectory: Whose tokens are shown.
        pieces: Ids -> the text of each.
        colour: Mark every sampled token in one of two shades of green, and dim the rest.
    """
    lines = []
    for number, turn in enumerate(trajectory.turns):
        context = _lines(pieces(turn.prompt_ids), lambda place: _DIM if colour else "")
        lines += [f"{'read' if number else 'prompt':>6} | {line}" for line in context]
        action = _lines(pieces(turn.action_ids), lambda place: _SHADES[place % 2] if colour else "")
        lines += [f"action > {line}" for line in action]
    return "\n".join(lines)


def _lines(pieces: Sequence[str], style: Callable[[int], str]) -> list[str]:
    """The pieces as lines of text, each piece in its style, no style across lines."""
    lines = [""]
    for place, piece in enumerate(pieces):
        for number, part in enumerate(printable(piece).split("\n")):
            if number:
                lines.append("")
            if part:
                mark = style(place)
                lines[-1] += f"{mark}{part}{_END}" if mark else part
    return lines
