"""The action mask on a terminal and in a log."""

import re

from agents.mask_view import show_mask
from agents.policy import SearchPolicy
from agents.token_transcripts import pieces
from agents.types import Trajectory
from tests.agents import builds

PROMPT, ACTION, READ = "ask\nassistant\n", "<search>\x1b[2Jü</search>", "\n[action > x]\n"


def made(policy: SearchPolicy) -> Trajectory:
    ids = [policy.encode(text) for text in (PROMPT, ACTION, READ, "<answer>")]
    return builds.trajectory((ids[0], ids[1]), (ids[2], ids[3]))


def test_a_log_marks_every_line(policy: SearchPolicy) -> None:
    shown = show_mask(made(policy), lambda ids: pieces(policy, ids), colour=False)
    assert shown.split("\n") == [
        "prompt | ask",
        "prompt | assistant",
        "prompt | ",
        "action > <search> [2Jü</search>",  # the escape character is none any more
        "  read | ",
        "  read | [action > x]",  # what was read cannot pass for what was written
        "  read | ",
        "action > <answer>",
    ]


def test_a_terminal_shades_each_sampled_token(policy: SearchPolicy) -> None:
    shown = show_mask(made(policy), lambda ids: pieces(policy, ids), colour=True)
    tokens = re.findall(r"\x1b\[30;(?:42|102)m(.*?)\x1b\[0m", shown)
    spoken = pieces(policy, policy.encode(ACTION)) + pieces(policy, policy.encode("<answer>"))
    assert tokens == [piece.replace("\x1b", " ") for piece in spoken if piece]
    shades = re.findall(r"\x1b\[30;(42|102)m", shown.split("\n")[3])
    assert len(set(shades[:2])) == 2
    assert "\x1b[2J" not in shown
    assert "\x1b[2mask" in shown.replace("\x1b[0m\x1b[2m", "")
