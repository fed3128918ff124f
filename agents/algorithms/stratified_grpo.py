"""Stratified GRPO: advantages within strata of trajectories that searched equally often.

arXiv:2510.06214: A = alpha SAN + (1 - alpha) GN with SAN = (R_i - mu_k) / (sigma_k + eps) within
trajectory i's stratum k of its group, and GN the same over the whole group. The rest is GRPO. A
stratum of one, or of equal rewards, has SAN 0.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from .. import bounds
from ..advantages import broadcast, standardize_within
from ..algorithm import Algorithm
from ..strata import KEYS
from ..types import Batch
from . import grpo


@dataclass(frozen=True)
class Config(grpo.Config):
    """The constants of Stratified GRPO.

    Attributes:
        alpha: Share of the stratified advantage; 0 is GRPO.
        strata: What a stratum shares: "searches" executed, "turns" taken, or nothing: "random"
            shuffles the search strata within each group, the control.
    """

    alpha: float = 0.6
    strata: str = "searches"

    def __post_init__(self) -> None:
        grpo.Config.__post_init__(self)
        bounds.share(self, "alpha")
        bounds.one_of(self, "strata", KEYS)


def build(config: Config) -> Algorithm:
    """Stratified GRPO with the given constants."""
    stratum, eps = KEYS[config.strata], config.std_eps

    def advantage(batch: Batch) -> Tensor:
        rewards, groups = batch.returns, batch.group_ids
        within = standardize_within(rewards, groups, stratum(batch), eps=eps)
        whole = standardize_within(rewards, groups, eps=eps)
        return broadcast(config.alpha * within + (1 - config.alpha) * whole, batch.action_mask)

    return replace(grpo.build(config), advantage=advantage)
