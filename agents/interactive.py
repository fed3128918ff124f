"""Questions typed at a terminal: every turn is shown as it is played.

How an episode is played is the caller's: an agent that writes tags, or a script that prompts.
Nobody knows the right answer to a typed question, so nothing is scored and no reward is shown.
"""

import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

from envs.types import ActionKind, Episode, Question, Step, StopReason
from retrieval.errors import InputError, RetrievalError

from .chat import ModelError

# Plays one question; is given what to call after every turn.
PlayOne = Callable[[Question, Callable[[Step], None]], Episode]

PROMPT = "question> "
LEAVE = "quit"
_GREETING = f'Type a question. Ctrl-C gives it up; an empty line, "{LEAVE}" or Ctrl-D leaves.'
_WIDTH = 96  # characters of a passage
_NO_ANSWER = {
    StopReason.TURN_LIMIT: "the turns are used up",
    StopReason.RETRIEVAL_ERROR: "the search failed",
}


def converse(play_one: PlayOne, lines: Iterable[str], out: TextIO) -> None:
    """Answer questions until there are no more.

    Args:
        play_one: Plays one question. What it raises of InputError, RetrievalError and ModelError
            costs that question only, and so does Ctrl-C (KeyboardInterrupt).
        lines: Typed lines, such as `sys.stdin`. An empty one, "quit" or the end leaves; so does
            Ctrl-C while a line is awaited.
        out: Where turns are written, and a prompt before every line.
    """
    print(_GREETING, file=out)
    typed = iter(lines)
    number = 0
    while (line := _ask(typed, out)) not in ("", LEAVE):
        number += 1
        try:
            _answer(play_one, typed_question(line, number), out)
        except KeyboardInterrupt:
            print("\n(given up)", file=out)
        except (InputError, RetrievalError, ModelError) as error:
            print(f"(no answer: {printable(str(error))})", file=out)


def typed_question(text: str, number: int) -> Question:
    """A question without a right answer: its one alias is blank, and a blank one matches nothing.

    Args:
        text: As typed.
        number: From 1; makes the id.
    """
    return Question(f"typed-{number}", text, answers=("",), dataset="typed")


def _ask(typed: Iterator[str], out: TextIO) -> str:
    """The next line; "" where there is none."""
    print(PROMPT, end="", file=out, flush=True)
    try:
        line = next(typed, None)
    except KeyboardInterrupt:
        line = None
    if line is None:
        print(file=out)
    return (line or "").strip()


def _answer(play_one: PlayOne, question: Question, out: TextIO) -> None:
    turns = 0

    def show(step: Step) -> None:
        nonlocal turns
        turns += 1
        print("\n".join([f"[turn {turns}]", *_lines(step)]), file=out, flush=True)

    episode = play_one(question, show)
    if episode.answer is None:
        reason = _NO_ANSWER.get(episode.stop_reason) if episode.stop_reason else None
        print(f"(no answer: {reason or 'the episode did not end'})", file=out)


def _lines(step: Step) -> list[str]:
    """A turn for a person to read."""
    action = step.action
    thought = _thought(step)
    lines = [f"thought: {thought}"] if thought else []
    if action.kind is ActionKind.INVALID:
        return [*lines, f"invalid: {printable(action.content)}"]
    lines.append(f"{action.kind}: {printable(action.content)}")
    if action.kind is ActionKind.ANSWER:
        return lines
    for number, hit in enumerate(step.hits, 1):
        title, text = printable(hit.passage.title), printable(hit.passage.text)
        shown = f"{title}: {text}" if title else text
        lines.append(f"  {number}. {textwrap.shorten(shown, _WIDTH, placeholder=' ...')}")
    if not step.observation:
        lines.append("  (not searched: this was the last turn)")
    elif not step.hits:
        lines.append("  (no passage shown)")
    return lines


def _thought(step: Step) -> str:
    """What an agent wrote besides its action, without the tags around it."""
    action = step.action
    before = action.text
    if action.kind is not ActionKind.INVALID:
        before = before.partition(f"<{action.kind}>")[0]
    return printable(before.replace("<think>", "").replace("</think>", "").strip())


def printable(text: str) -> str:
    """The text without what would move a terminal's cursor: models and passages are not trusted."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)
