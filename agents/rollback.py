"""The guard's hands: on an alarm a run goes back to its good checkpoint, and on more carefully."""

from collections.abc import Mapping

from tqdm import tqdm

from . import processes
from .guard import Alarm, GuardOptions, History, alarms
from .metrics import RunLog
from .saving import Saver


class CollapseError(RuntimeError):
    """The guard gave up. The message is one line that names the alarm and the remedy."""


class Guard:
    """Watches a run's steps, and undoes those that led to an alarm."""

    def __init__(
        self, options: GuardOptions, saver: Saver, log: RunLog | None, history: History
    ) -> None:
        """Of a run that begins or goes on.

        Args:
            options: The thresholds, and what to do.
            saver: Of the run's checkpoints.
            log: Where events are written; None in all processes but the first.
            history: The lines of metrics.jsonl so far.

        Raises:
            CollapseError: The guard gave up on this run, and is not told to allow more.
        """
        self._options = options
        self._saver = saver
        self._log = log
        self._history = [line for line in history if self._counts(line)]
        if options.enabled:
            self._check_patience()

    @property
    def enabled(self) -> bool:
        """Whether it does anything."""
        return self._options.enabled

    def watch(self, step: int, line: Mapping[str, float | None]) -> bool:
        """Look at a step's metrics; whether it was undone."""
        self._history.append({"step": step, **line})
        found = alarms(self._history, self._options)
        if found:
            self.undo(step, found[0])
        else:
            self._saver.lineage.passed(step)
        return bool(found)

    def undo(self, step: int, alarm: Alarm) -> None:
        """Go back to the good checkpoint, save it as that of the step, and write the event down.

        Raises:
            CollapseError: It was one alarm too many. The run is then left at the good checkpoint.
        """
        saver, options = self._saver, self._options
        saver.roll_back(step, str(alarm))
        undone = saver.lineage.rollbacks
        self._history = [line for line in self._history if self._counts(line)]
        event = {
            "step": step,
            "kind": alarm.kind,
            "value": alarm.value,
            "threshold": alarm.threshold,
            "action": "gave up" if len(undone) > options.max_rollbacks else "rolled back",
            "restored": undone[-1].restored,
            "lr_scale": options.lr_factor ** len(undone),
        }
        with processes.together():
            if self._log is not None:
                self._log.event(event)
                tqdm.write(f"step {step}: the guard: {alarm}; back to {saver.good_folder.name}")
        saver.save(step)
        self._check_patience()

    def _counts(self, line: Mapping[str, float | None]) -> bool:
        step = line["step"]
        return step is not None and self._saver.lineage.descends_from(int(step))

    def _check_patience(self) -> None:
        undone = self._saver.lineage.rollbacks
        if len(undone) <= self._options.max_rollbacks:
            return
        last = undone[-1]
        with processes.together():
            raise CollapseError(
                f"the guard gave up at step {last.step}: {last.reason}, after "
                f"{self._options.max_rollbacks} rollbacks; the last good checkpoint is "
                f"{self._saver.good_folder}; lower optimizer.lr, or raise guard.max_rollbacks"
            )
