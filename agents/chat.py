"""What a chat model is, for methods that prompt one: messages in, text out.

Training needs token ids and log-probabilities and uses an `Engine`. Prompting needs neither, and so
any endpoint that speaks text will do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; `role` is "system", "user" or "assistant"."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Ask:
    """One request.

    Attributes:
        messages: The conversation. If the last one is the assistant's, it is continued: the reply
            goes on where it stops.
        stop: The reply ends with the first of these strings, which belongs to it.
    """

    messages: tuple[Message, ...]
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """The model's answer to a request.

    Attributes:
        text: Without special tokens; what it continues is not repeated. A stop string that ended it
            stands at its end.
        tokens: Generated tokens.
        truncated: It was cut off at the most tokens of a turn.
    """

    text: str
    tokens: int
    truncated: bool


def cut_after_stop(text: str, stop: Sequence[str]) -> tuple[str, bool]:
    """The text up to the end of the first stop string, and whether there is one.

    The token that completes a stop string may hold more than its end.
    """
    ends = [start + len(s) for s in stop if (start := text.find(s)) >= 0]
    return (text[: min(ends)], True) if ends else (text, False)


class ModelError(Exception):
    """The model gave no reply although the request was in order (time-out, a broken endpoint)."""


class ChatModel(Protocol):
    """A model that is prompted."""

    def complete(self, asks: Sequence[Ask]) -> list[Reply | ModelError]:
        """Answer greedily.

        Args:
            asks: Independent of one another.

        Returns:
            One reply per request, in order; a `ModelError` where there is none, so that one failure
            does not lose the others.

        Raises:
            InputError: What no repetition can mend: an unknown model, a refused key.
        """
        ...
