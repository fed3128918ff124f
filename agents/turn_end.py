"""When a sampled turn ends: the same rule for every engine."""

from .engine import Sampling
from .policy import SearchPolicy


class TurnEnd:
    """Watches one turn for its end, on the pieces of the sampled ids."""

    def __init__(self, policy: SearchPolicy, sampling: Sampling) -> None:
        self._policy = policy
        self._sampling = sampling
        self._count = 0
        self._tail = ""
        self._keep = max((len(stop) for stop in sampling.stop), default=1) - 1

    def reached(self, token: int) -> bool:
        """Whether the turn ends with this token, the next one sampled."""
        self._count += 1
        text = self._tail + self._policy.piece(token)
        self._tail = text[-self._keep :] if self._keep else ""
        return (
            token in self._policy.end_ids
            or self._count == self._sampling.max_tokens
            or any(stop in text for stop in self._sampling.stop)
        )
