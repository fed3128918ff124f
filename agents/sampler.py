"""What a sampler is: it chooses the questions of a step, and which of the played groups to keep."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Sampler(Protocol):
    """Of one run; question indices count from 0.

    Attributes:
        rounds: How often a step may draw until it has the groups it wants.
    """

    rounds: int

    def draw(self, count: int, step: int) -> list[int]:
        """The next questions to play, for a step (from 1)."""
        ...

    def observe(self, questions: Sequence[int], returns: Sequence[Sequence[float]]) -> list[bool]:
        """Take in the returns of played groups; whether each is kept for training.

        Args:
            questions: One index per group.
            returns: Of the group's samples whose retrieval worked; may be empty.
        """
        ...

    def state(self) -> dict[str, Any]:
        """What later draws depend on; JSON."""
        ...

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        ...
