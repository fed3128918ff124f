"""SAPO: a soft gate in place of the clip.

arXiv:2511.20347: 1/G sum_i 1/|y_i| sum_t f(w_t) A_i with f(w) = (4/tau) sigmoid(tau (w - 1)), whose
slope is 1 at w = 1 and falls off on both sides; tau is larger, the gate narrower, where A < 0.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .. import bounds
from ..algorithm import Algorithm
from ..losses import Terms, without_clip
from ..ratios import token_ratio
from ..types import Batch
from . import grpo


@dataclass(frozen=True)
class Config:
    """SAPO's constants.

    Attributes:
        tau_pos: Temperature of the gate where A > 0.
        tau_neg: Temperature of the gate where A < 0.
        std_eps: Added to the group's standard deviation.
    """

    tau_pos: float = 1.0
    tau_neg: float = 1.05
    std_eps: float = 1e-8

    def __post_init__(self) -> None:
        bounds.positive(self, "tau_pos", "tau_neg")
        bounds.at_least(self, 0, "std_eps")


def build(config: Config) -> Algorithm:
    """SAPO with the given constants."""

    def loss(logprobs: Tensor, batch: Batch, advantages: Tensor) -> Terms:
        ratios = token_ratio(logprobs, batch.old_logprobs, batch.action_mask)
        narrow, wide = ratios.new_tensor([config.tau_neg, config.tau_pos])
        tau = torch.where(advantages > 0, wide, narrow)
        return without_clip(-4 / tau * (tau * (ratios - 1)).sigmoid() * advantages)

    return replace(grpo.build(grpo.Config(std_eps=config.std_eps)), loss=loss)
