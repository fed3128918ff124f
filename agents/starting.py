"""Where a run begins: fresh, or at the newest checkpoint of its folder."""

from dataclasses import dataclass

import torch

from retrieval.errors import InputError

from .assembly import Parts
from .checkpoint import (
    latest_checkpoint,
    load_adapter,
    load_critic,
    load_optimizer,
    load_training,
)
from .config import RunConfig
from .held_out import evaluated
from .trainer import StepOptions, Trainer

_OPTIMIZERS = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


@dataclass(frozen=True, slots=True)
class Start:
    """Where a run begins, or goes on.

    Attributes:
        trainer: Of reinforcement learning.
        step: Steps done; None before the warm start.
    """

    trainer: Trainer
    step: int | None


def begin(parts: Parts) -> Start:
    """A fresh start."""
    config, critic = parts.config, parts.critic
    optimizer = _OPTIMIZERS[config.optimizer.name](
        parts.policy.trainable_parameters(),
        lr=config.optimizer.lr,
        weight_decay=config.optimizer.weight_decay,
    )
    if critic is not None:
        optimizer.add_param_group({"params": critic.parameters(), "lr": critic.lr})
    penalty = config.penalty.build()
    trainer = Trainer(
        parts.policy, parts.algorithm, optimizer, _step_options(config), penalty, critic
    )
    return Start(trainer, None)


def resume(parts: Parts) -> Start:
    """Go on from the newest checkpoint of the run's folder; nothing is written.

    Raises:
        InputError: The checkpoint does not fit the configuration, or the questions are not those
            that the run was evaluated on before training.
    """
    trainer = begin(parts).trainer
    folder = latest_checkpoint(parts.folder)
    if folder is None:
        return Start(trainer, None)
    step = load_adapter(parts.policy, folder)
    if trainer.critic is not None:
        load_critic(trainer.critic, folder)
    load_optimizer(trainer.optimizer, folder)
    training = load_training(folder)
    trainer.load_state(training["trainer"])
    parts.sampler.load_state(training["sampler"])
    if step and parts.held_out and evaluated(parts, "before") is None:
        raise InputError(
            "evaluation: the run has not been evaluated on these questions before training; leave "
            "the evaluation and dataset sections as they were"
        )
    return Start(trainer, step)


def _step_options(config: RunConfig) -> StepOptions:
    options = config.optimizer
    return StepOptions(
        epochs=options.epochs,
        minibatches=options.minibatches,
        microbatch_tokens=options.microbatch_tokens,
        max_grad_norm=options.max_grad_norm,
        temperature=config.rollout.temperature,
    )
