"""GRPO with accidents in chosen groups: --algorithm.name tests.agents.faulty_grpo.

Group ids count through the whole run, questions_per_step a step: they say when it happens.
"""

import os
import signal
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from agents.algorithm import Algorithm
from agents.algorithms import grpo
from agents.losses import Terms
from agents.types import Batch


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        nan: Groups whose loss is not a number.
        interrupt: Groups during whose update this process gets a SIGINT, each once.
        terminate: A SIGTERM.
    """

    nan: tuple[int, ...] = ()
    interrupt: tuple[int, ...] = ()
    terminate: tuple[int, ...] = ()


def build(config: Config) -> Algorithm:
    """GRPO, but for the accidents."""
    plain = grpo.build(grpo.Config())
    due = [(g, signal.SIGINT) for g in config.interrupt]
    due += [(g, signal.SIGTERM) for g in config.terminate]

    def loss(logprobs: Tensor, batch: Batch, advantages: Tensor) -> Terms:
        groups = set(batch.group_ids.tolist())
        for event in [event for event in due if event[0] in groups]:
            due.remove(event)
            os.kill(os.getpid(), event[1])
        terms = plain.loss(logprobs, batch, advantages)
        bad = torch.isin(batch.group_ids, torch.tensor(config.nan, dtype=torch.int64))
        factor = torch.where(bad, torch.nan, 1.0)[:, None]
        return replace(terms, per_token=terms.per_token * factor)

    return replace(plain, loss=loss)
