"""EnvLimits: the bounds of an episode, and the token budget of its context."""

from collections.abc import Callable
from dataclasses import dataclass

from retrieval.errors import InputError

from .actions import LAST_TURN, count_words


@dataclass(frozen=True, slots=True)
class EnvLimits:
    """What bounds an episode.

    Attributes:
        top_k: Passages per search.
        max_turns: Turns per episode; the last one is for the answer. Search-R1's "4 searches, then
            an answer" is 5.
        max_observation_tokens: Tokens of one `<information>` block.
        max_context_tokens: Tokens of question, turns and observations together; None for no limit.
            Observations are cut to fit, the question never is. System prompt and chat template are
            the caller's: leave room for them.
        reserve_tokens: Tokens kept free for one turn of the agent; used with `max_context_tokens`.
            Where less than two turns are left, the next turn is made the last.
        count_tokens: The length of a text; give the model's own tokenizer for exact limits.
    """

    top_k: int = 3
    max_turns: int = 5
    max_observation_tokens: int = 500
    max_context_tokens: int | None = None
    reserve_tokens: int = 128
    count_tokens: Callable[[str], int] = count_words

    def __post_init__(self) -> None:
        # A block with the title of one passage needs about 32 tokens.
        least = {"top_k": 1, "max_turns": 1, "max_observation_tokens": 32, "reserve_tokens": 1}
        for name, minimum in least.items():
            if getattr(self, name) < minimum:
                raise InputError(f"limits: {name} is {getattr(self, name)}; give {minimum} or more")
        if self.max_context_tokens is not None and self.max_context_tokens < self._two_turns:
            raise InputError(
                f"limits: max_context_tokens is {self.max_context_tokens}, less than two turns of "
                f"{self.reserve_tokens} reserve_tokens; raise the first or lower the second"
            )

    @property
    def _two_turns(self) -> int:
        return 2 * self.reserve_tokens

    def room_after(self, used_tokens: int) -> int:
        """Tokens that an observation may take after `used_tokens`, one more turn kept free."""
        if self.max_context_tokens is None:
            return self.max_observation_tokens
        request = self.count_tokens(f"\n{LAST_TURN}")
        free = self.max_context_tokens - used_tokens - self.reserve_tokens - request
        return min(self.max_observation_tokens, free)

    def next_is_last(self, turns: int, used_tokens: int) -> bool:
        """Whether the turn after `turns` turns and `used_tokens` must be the answer."""
        if turns + 1 >= self.max_turns:
            return True
        if self.max_context_tokens is None:
            return False
        return self.max_context_tokens - used_tokens < self._two_turns
