"""GiGPO: GRPO's advantage of the episode plus one of the step, among turns in the same state.

arXiv:2505.10978: A = A^E + omega A^S. A^S standardises the discounted return from a turn on, within
the turns of the group whose anchor observation (what the agent has just read) is identical.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from .. import bounds
from ..advantages import center_within, standardize_within
from ..algorithm import Algorithm
from ..anchors import anchored_turns, to_tokens
from ..types import Batch
from . import grpo


@dataclass(frozen=True)
class Config(grpo.Config):
    """GiGPO's constants.

    Attributes:
        omega: Weight of the step's advantage.
        gamma: Discount per turn of the step's return; 1 leaves groups of equal rewards without a
            gradient.
        use_std: Divide the step's advantage by the standard deviation; else it is only centred.
    """

    omega: float = 1.0
    gamma: float = 1.0
    use_std: bool = True

    def __post_init__(self) -> None:
        grpo.Config.__post_init__(self)
        bounds.at_least(self, 0, "omega")
        bounds.share(self, "gamma")


def build(config: Config) -> Algorithm:
    """GiGPO with the given constants."""
    episode = grpo.build(config)

    def advantage(batch: Batch) -> Tensor:
        turns = anchored_turns(batch, config.gamma)
        if config.use_std:
            scores = standardize_within(turns.returns, turns.anchors, eps=config.std_eps)
        else:
            scores = center_within(turns.returns, turns.anchors)
        return episode.advantage(batch) + config.omega * to_tokens(scores, turns, batch)

    return replace(episode, advantage=advantage)
