"""Where a run begins: fresh, or at the newest checkpoint of its folder."""

from dataclasses import dataclass, replace

import torch

from retrieval.errors import InputError

from .assembly import Parts
from .checkpoint import latest_checkpoint
from .config import RunConfig
from .held_out import evaluated
from .saving import Saver
from .trainer import StepOptions, Trainer

_OPTIMIZERS = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


@dataclass(frozen=True, slots=True)
class Start:
    """Where a run begins, or goes on.

    Attributes:
        trainer: Of reinforcement learning.
        saver: Of its checkpoints.
        step: Steps done; None before the warm start.
    """

    trainer: Trainer
    saver: Saver
    step: int | None


def begin(parts: Parts) -> Start:
    """A fresh start.

    Raises:
        InputError: The guard is to raise the coefficient of a KL penalty that there is not.
    """
    config, critic = parts.config, parts.critic
    optimizer = _OPTIMIZERS[config.optimizer.name](
        parts.policy.trainable_parameters(),
        lr=config.optimizer.lr,
        weight_decay=config.optimizer.weight_decay,
    )
    if critic is not None:
        optimizer.add_param_group({"params": critic.parameters(), "lr": critic.lr})
    penalty = config.penalty.build()
    if config.guard.kl_factor != 1 and not penalty.kl:
        raise InputError("guard.kl_factor: there is no KL penalty; give --penalty.name kl, or 1")
    trainer = Trainer(
        parts.policy, parts.algorithm, optimizer, _step_options(config), penalty, critic
    )
    return Start(trainer, Saver(parts, trainer), None)


def resume(parts: Parts) -> Start:
    """Go on from the newest checkpoint of the run's folder; nothing is written.

    Raises:
        InputError: The checkpoint does not fit the configuration, or the questions are not those
            that the run was evaluated on before training.
    """
    start = begin(parts)
    folder = latest_checkpoint(parts.folder)
    if folder is None:
        return start
    step = start.saver.load(folder)
    if step and parts.held_out and evaluated(parts, "before") is None:
        raise InputError(
            "evaluation: the run has not been evaluated on these questions before training; leave "
            "the evaluation and dataset sections as they were"
        )
    return replace(start, step=step)


def _step_options(config: RunConfig) -> StepOptions:
    options = config.optimizer
    return StepOptions(
        epochs=options.epochs,
        minibatches=options.minibatches,
        microbatch_tokens=options.microbatch_tokens,
        max_grad_norm=options.max_grad_norm,
        temperature=config.rollout.temperature,
    )
