"""Where a run's present weights come from: rollbacks, and the checkpoint that is known to be good.

A checkpoint is good once `window` steps without an alarm have followed it: a collapse begins before
it rings. Until there is one, the first is taken for good. One later checkpoint at a time is the
candidate to take its place.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Rollback:
    """One return to a good checkpoint.

    Attributes:
        step: At whose end it happened.
        restored: The step of the checkpoint; those after it, up to `step`, are undone.
        reason: The alarm in words.
    """

    step: int
    restored: int
    reason: str


class Lineage:
    """Counts steps; it depends on them alone, so that a resumed run counts the same.

    Attributes:
        good: The step of the last checkpoint known to be good.
        rollbacks: All of the run, the first first.
    """

    def __init__(self, window: int, good: int = 0) -> None:
        """Begin.

        Args:
            window: Steps without an alarm that make a checkpoint good.
            good: The first checkpoint.
        """
        self.good = good
        self.rollbacks: list[Rollback] = []
        self._window = window
        self._candidate: int | None = None

    @property
    def needed(self) -> set[int]:
        """Steps whose checkpoints must stay."""
        return {self.good} if self._candidate is None else {self.good, self._candidate}

    def saved(self, step: int) -> None:
        """There is a checkpoint of a step."""
        if self._candidate is None and step > self.good:
            self._candidate = step

    def passed(self, step: int) -> None:
        """A step had no alarm."""
        if self._candidate is not None and step - self._candidate >= self._window:
            self.good, self._candidate = self._candidate, None

    def rolled_back(self, step: int, reason: str) -> None:
        """The weights are those of the good checkpoint again."""
        self.rollbacks.append(Rollback(step, self.good, reason))
        self._candidate = None

    def descends_from(self, step: int) -> bool:
        """Whether a past step has not been undone."""
        return not any(undone.restored < step <= undone.step for undone in self.rollbacks)

    def state(self) -> dict[str, Any]:
        """JSON."""
        undone = [asdict(rollback) for rollback in self.rollbacks]
        return {"good": self.good, "candidate": self._candidate, "rollbacks": undone}

    def load_state(self, state: Mapping[str, Any], existing: Iterable[int], step: int) -> None:
        """Go on from what `state` gave.

        Args:
            state: Of a checkpoint.
            existing: Steps of the checkpoints that are still there.
            step: Of the checkpoint; good if what was good is gone.
        """
        self.rollbacks = [Rollback(**rollback) for rollback in state["rollbacks"]]
        there = set(existing)
        self.good = state["good"] if state["good"] in there else step
        self._candidate = state["candidate"] if state["candidate"] in there else None
