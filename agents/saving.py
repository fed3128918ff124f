"""What changes in a run, saved in its checkpoints and put back from them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import processes
from .assembly import Parts
from .checkpoint import (
    Progress,
    checkpoints,
    load_adapter,
    load_critic,
    load_optimizer,
    load_training,
    prune_checkpoints,
    save_checkpoint,
)
from .lineage import Lineage
from .trainer import Trainer
from .writing import writing_to


class Saver:
    """A run's checkpoints.

    Attributes:
        lineage: Which of them is good, and what has been rolled back.
    """

    def __init__(self, parts: Parts, trainer: Trainer) -> None:
        """Of a trainer whose learning rates are still those of the configuration."""
        self.lineage = Lineage(parts.config.guard.window)
        self._parts = parts
        self._trainer = trainer
        self._rates = [group["lr"] for group in trainer.optimizer.param_groups]
        self._finished: tuple[int, dict[str, Any]] | None = None

    def finished(self, step: int) -> None:
        """A step is over, and may yet be saved: the sampler moves on with the next one's play."""
        self._finished = step, self._parts.sampler.state()

    def save_finished(self) -> None:
        """Save the last finished step, if that has not been done; waits for no other process.

        Raises:
            WriteError: The folder cannot be written to.
        """
        finished = self._finished
        if finished is None or finished[0] in checkpoints(self._parts.folder):
            return
        if processes.rank() == 0:
            self._write(*finished)

    def save(self, step: int) -> None:
        """Write the checkpoint of a step, and remove those that are no longer kept.

        Raises:
            WriteError: The folder cannot be written to; earlier checkpoints are as they were.
        """
        # The others are due to how a run went: a resumed one may not have them.
        if self._regular(step):
            self.lineage.saved(step)
        with processes.together():
            if processes.rank() == 0:
                self._write(step, self._parts.sampler.state())

    def _write(self, step: int, sampler: Mapping[str, Any]) -> None:
        parts, trainer, options = self._parts, self._trainer, self._parts.config.run
        training = {
            "trainer": trainer.state(),
            "sampler": dict(sampler),
            "lineage": self.lineage.state(),
        }
        progress = Progress(step, trainer.optimizer, trainer.critic, training)
        needed = self.lineage.needed if parts.config.guard.enabled else set()
        with writing_to(parts.folder):
            save_checkpoint(
                parts.folder / "checkpoints", parts.policy, progress, parts.config.model.name
            )
            prune_checkpoints(parts.folder, options.keep_checkpoints, needed)

    def load(self, folder: Path) -> int:
        """Go on from a checkpoint.

        Returns:
            Its step.

        Raises:
            InputError: It is damaged, or does not fit the configuration.
        """
        step, training = self._load_weights(folder)
        self._parts.sampler.load_state(training["sampler"])
        lineage = training.get("lineage", Lineage(1, good=step).state())
        self.lineage.load_state(lineage, checkpoints(self._parts.folder), step)
        self._scale_rates()
        return step

    @property
    def good_folder(self) -> Path:
        """The good checkpoint's."""
        return checkpoints(self._parts.folder)[self.lineage.good]

    def roll_back(self, step: int, reason: str) -> None:
        """Put the weights and moments of the good checkpoint back; the run's step goes on.

        So do the questions: the sampler stays where it is.
        """
        _, training = self._load_weights(self.good_folder)
        self.lineage.rolled_back(step, reason)
        self._scale_rates()
        known = len(training.get("lineage", {"rollbacks": ()})["rollbacks"])
        since = len(self.lineage.rollbacks) - known
        self._trainer.kl_coef *= self._parts.config.guard.kl_factor**since

    def _regular(self, step: int) -> bool:
        undone = self.lineage.rollbacks
        return step % self._parts.config.run.save_every == 0 or (
            bool(undone) and undone[-1].step == step
        )

    def _load_weights(self, folder: Path) -> tuple[int, dict[str, Any]]:
        trainer = self._trainer
        step = load_adapter(self._parts.policy, folder)
        if trainer.critic is not None:
            load_critic(trainer.critic, folder)
        load_optimizer(trainer.optimizer, folder)
        training = load_training(folder)
        trainer.load_state(training["trainer"])
        return step, training

    def _scale_rates(self) -> None:
        # From the configuration's rates, so that it does not matter when the rollbacks were.
        scale = self._parts.config.guard.lr_factor ** len(self.lineage.rollbacks)
        for group, rate in zip(self._trainer.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * scale
