"""The loop over a run's steps: watched by the guard, saved, interruptible."""

import math
from collections.abc import Callable, Mapping

from retrieval.errors import RetrievalError

from . import processes
from .config import RunOptions
from .engine import DivergedError, EngineError
from .guard import Alarm
from .interruption import Interrupts
from .rollback import Guard
from .saving import Saver

# The number of a step -> its metrics.
Step = Callable[[int], Mapping[str, float | None]]


def run_steps(
    take: Step, first: int, options: RunOptions, saver: Saver, guard: Guard, interrupts: Interrupts
) -> None:
    """Take the steps after `first`, up to the run's last.

    Args:
        take: Plays, trains and writes down one step; what it may abandon is `interrupts.at_once`.
        first: The last step that has been done.
        options: How many there are, and how often they are saved.
        saver: Saves them; also the last whole one when a signal or a dead retriever ends the loop.
        guard: Looks at each.
        interrupts: Holds signals back while a step is half done.
    """
    try:
        for step in range(first + 1, options.steps + 1):
            with interrupts.held():
                undone = _take(take, step, guard)
                saver.finished(step)
                # What the guard went back to, it has saved.
                if not undone and (step % options.save_every == 0 or step == options.steps):
                    saver.save(step)
    except (KeyboardInterrupt, RetrievalError, EngineError, processes.FailedElsewhere):
        if interrupts.whole:
            saver.save_finished()
        raise


def _take(take: Step, step: int, guard: Guard) -> bool:
    """One step; whether it was undone."""
    try:
        line = take(step)
    except DivergedError:
        # Of several processes the others cannot know.
        if not guard.enabled or processes.size() > 1:
            raise
        # The weights are numbers, what comes of them is not. The step has no line of metrics.
        guard.undo(step, Alarm("sampling", math.nan, math.inf))
        return True
    return guard.watch(step, line)
