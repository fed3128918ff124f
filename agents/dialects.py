"""Tag dialects: what agents of other projects write and read, put into the environment's own tags.

The ids an agent sampled stay as sampled; only the text that the environment is given, and the text
of the observation before it is encoded, are rewritten.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an agent speaks.

    Attributes:
        to_env: The agent's turn -> the turn in the environment's tags.
        to_agent: An observation -> as the agent reads it.
    """

    to_env: Callable[[str], str]
    to_agent: Callable[[str], str]


PLAIN = Dialect(lambda turn: turn, lambda observation: observation)

_RESULT = re.compile(r"<(\s*(?:/\s*)?result\s*)>", re.IGNORECASE)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def boxed(text: str) -> str | None:
    r"""The content of the last closed \boxed{...} of a text, braces balanced; None without one."""
    start = text.rfind(r"\boxed{")
    while start >= 0:
        depth, first = 1, start + len(r"\boxed{")
        for place in range(first, len(text)):
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            if not depth:
                return text[first:place].strip()
        start = text.rfind(r"\boxed{", 0, start)
    return None


def _unbox(turn: str) -> str:
    """An answer's content is what it boxes."""

    def inner(match: re.Match[str]) -> str:
        found = boxed(match[1])
        return match[0] if found is None else f"<answer>{found}</answer>"

    return _ANSWER.sub(inner, turn, count=1)


def _result(observation: str) -> str:
    # A passage must not be able to close the block; the environment knows only its own tags.
    harmless = _RESULT.sub(r"&lt;\1&gt;", observation)
    return harmless.replace("<information>", "<result>").replace("</information>", "</result>")


# ReSearch (arXiv:2503.19470): results inside <result>, the answer inside \boxed{} inside <answer>.
RESEARCH = Dialect(_unbox, _result)
