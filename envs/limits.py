"""EnvLimits: the bounds of an episode, and the token budget of its context."""

from collections.abc import Callable
from dataclasses import dataclass

from retrieval.errors import InputError

from .actions import LAST_TURN, count_words

# What the head of one passage and a few words of it need; also more than a reminder.
MIN_OBSERVATION_TOKENS = 32


@dataclass(frozen=True, slots=True)
class EnvLimits:
    """What bounds an episode.

    With `max_context_tokens`, an observation is cut so that the request to answer and one more turn
    still fit; and once a search, the least observation and an answer no longer fit, the next turn
    is made the last. Agents whose turns keep to `reserve_tokens` therefore never exceed the limit,
    unless the question alone does.

    Attributes:
        top_k: Passages per search.
        max_turns: Turns per episode; the last one is for the answer. Search-R1's "4 searches, then
            an answer" is 5.
        max_observation_tokens: Tokens of one `<information>` block, at least 32.
        max_context_tokens: Tokens of question, turns and observations together; None for no limit.
            System prompt and chat template are the caller's: leave room for them.
        reserve_tokens: Tokens that one turn of the agent may take.
        count_tokens: The length of a text; give the model's own tokenizer for exact limits.
    """

    top_k: int = 3
    max_turns: int = 5
    max_observation_tokens: int = 500
    max_context_tokens: int | None = None
    reserve_tokens: int = 128
    count_tokens: Callable[[str], int] = count_words

    def __post_init__(self) -> None:
        least = {"top_k": 1, "max_turns": 1, "reserve_tokens": 1}
        for name, minimum in {**least, "max_observation_tokens": MIN_OBSERVATION_TOKENS}.items():
            if getattr(self, name) < minimum:
                raise InputError(f"limits: {name} is {getattr(self, name)}; give {minimum} or more")
        if self.max_turns > 1 and self.next_is_last(0, 0):
            raise InputError(
                f"limits: max_context_tokens {self.max_context_tokens} has no room for a search "
                f"and an answer of {self.reserve_tokens} reserve_tokens each; raise the limit"
            )

    def room_after(self, used_tokens: int) -> int:
        """Tokens that an observation may take once `used_tokens` of the context are used."""
        if self.max_context_tokens is None:
            return self.max_observation_tokens
        request_tokens = self.count_tokens(f"\n{LAST_TURN}")
        free = self.max_context_tokens - used_tokens - request_tokens - self.reserve_tokens
        return min(self.max_observation_tokens, free)

    def next_is_last(self, turns: int, used_tokens: int) -> bool:
        """Whether the turn after `turns` turns and `used_tokens` must be the answer."""
        if turns + 1 >= self.max_turns:
            return True
        return self.room_after(used_tokens + self.reserve_tokens) < MIN_OBSERVATION_TOKENS
