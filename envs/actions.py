r"""The tag grammar: what an agent's turn means, and what the environment answers with.

Search-R1's grammar (arXiv 2503.09516): `<think>`, `<search>query</search>`, `<answer>text</answer>`
from the agent, `<information>...</information>` from the environment. Tags are case-sensitive.

A turn's action is the first match of `<(search|answer)>(.*?)</\1>`: the pair whose opening tag
comes first among the pairs that are closed. So in `<search>a<answer>b</answer>`, where the search
is never closed, the answer wins; and a pair inside `<think>` counts like any other, because
generation stops at the first closing tag anyway.

Nothing an agent or a passage writes can pass for the environment's own text. A query or an answer
that contains a tag is INVALID, and inside a passage a tag is escaped (`&lt;answer&gt;`).
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence

from retrieval.types import Hit, Passage

from .types import Action, ActionKind

INVALID = "Invalid action."
REMINDER = f"{INVALID} Write <search>query</search> or <answer>answer</answer>."
OPTION_NAMED = f"{INVALID} Search with words of the question, not of an option."
LAST_TURN = "This is the last turn: answer now inside <answer> and </answer>."
NO_RESULTS = "No results."
NO_ROOM = "No room left for results."

_TAG = re.compile(r"<(\s*(?:/\s*)?(?:think|search|answer|information)\s*)>", re.IGNORECASE)
_TOKEN = re.compile(r"\w+|[^\w\s]")
# A word border, or every 20 characters of a longer run: some scripts have no spaces.
_PIECE = re.compile(r"\S{1,20}")


def count_words(text: str) -> int:
    """Words and punctuation marks: a token count that needs no tokenizer."""
    return len(_TOKEN.findall(text))


def _closed_pair(text: str, kind: ActionKind) -> tuple[int, ActionKind, str] | None:
    """Position, kind and content of the first closed pair of this kind.

    If the first opening tag has no closing tag after it, no later one has: one look is enough,
    which keeps parsing linear where the regular expression is quadratic.
    """
    start = text.find(f"<{kind}>")
    if start < 0:
        return None
    inner = start + len(kind) + 2
    end = text.find(f"</{kind}>", inner)
    return None if end < 0 else (start, kind, text[inner:end].strip())


def parse(text: str) -> Action:
    """Read one turn; any string is exactly one action.

    An empty query is INVALID. An empty answer is an ANSWER, and a wrong one: the agent did decide.
    """
    pairs = [_closed_pair(text, kind) for kind in (ActionKind.SEARCH, ActionKind.ANSWER)]
    closed = [pair for pair in pairs if pair is not None]
    if not closed:
        return Action(ActionKind.INVALID, "no complete tag pair", text)
    _, kind, content = min(closed)
    if "<" in content and _TAG.search(content):
        return Action(ActionKind.INVALID, f"a tag inside the {kind}", text)
    if not content and kind is ActionKind.SEARCH:
        return Action(ActionKind.INVALID, "an empty query", text)
    return Action(kind, content, text)


def _block(body: str) -> str:
    return f"<information>{body}</information>"


def escape(text: str) -> str:
    """The text with its tags of the grammar made harmless (`&lt;answer&gt;`)."""
    return _TAG.sub(r"&lt;\1&gt;", text) if "<" in text else text


def _head(number: int, passage: Passage) -> str:
    return f"Doc {number}(Title: {escape(passage.title)})"


def render(
    hits: Sequence[Hit],
    max_tokens: int | None = None,
    count_tokens: Callable[[str], int] = count_words,
) -> tuple[str, tuple[Hit, ...]]:
    """Write hits as an `<information>` block, always closed, and say which of them it shows.

    Passages read `Doc 1(Title: ...) text`, one per line, as in Search-R1. Over the limit, passages
    are left out from the last one up; a first passage that is too long alone is cut at a word.

    Args:
        hits: Best first.
        max_tokens: The most tokens of the whole block, tags included; None for no limit. Only the
            short blocks without any passage (`NO_RESULTS`, `NO_ROOM`) may be longer.
        count_tokens: The length of a text, the same or more for a longer one.

    Returns:
        The block, and the hits it shows.
    """
    if not hits:
        return _block(NO_RESULTS), ()
    heads = [_head(number, hit.passage) for number, hit in enumerate(hits, 1)]
    lines = [f"{head} {escape(hit.passage.text)}" for head, hit in zip(heads, hits, strict=True)]
    for shown in range(len(lines), 0, -1):
        block = _block("\n".join(lines[:shown]))
        if max_tokens is None or count_tokens(block) <= max_tokens:
            return block, tuple(hits[:shown])
    assert max_tokens is not None
    borders = [piece.end() for piece in _PIECE.finditer(lines[0], len(heads[0]))]
    # How many borders fit: the blocks cut at them only grow, so bisect.
    fitting = bisect_left(
        borders, True, key=lambda border: count_tokens(_block(lines[0][:border])) > max_tokens
    )
    if not fitting:
        return _block(NO_ROOM), ()
    return _block(lines[0][: borders[fitting - 1]]), (hits[0],)
