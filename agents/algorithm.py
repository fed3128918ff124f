"""What an algorithm is: the signatures of the plug points.

An algorithm is data: functions and what they need. The trainer knows no algorithm by name.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from .losses import Terms
from .normaliser import Normaliser
from .types import Batch

# (log-probabilities (B, T) with gradient, Batch, advantages (B, T)) -> Terms, per micro-batch.
Loss = Callable[[Tensor, Batch, Tensor], Terms]


@dataclass(frozen=True, slots=True)
class ValueFunction:
    """What the critic of an actor-critic algorithm learns.

    Attributes:
        targets: Batch with values -> (B, T), once per rollout batch, without gradient.
        clip: Half-width of the band around the old value in the clipped value loss.
        lr: The critic's learning rate.
        rank: Rank of its adapter, scaled and placed as the policy's.
    """

    targets: Callable[[Batch], Tensor]
    clip: float
    lr: float
    rank: int


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One paper variant.

    The gradient of an optimiser step is that of sum(weights * per_token), summed over its
    micro-batches; since the weights are fixed for the whole step, any split gives the same one.

    Attributes:
        advantage: Batch -> (B, T), once per rollout batch, without gradient; sees whole groups.
        loss: Log-probabilities, Batch, advantages -> Terms, per micro-batch.
        weights: action_mask (B, T) -> (B, T), how tokens are averaged, for the whole step.
        value: For actor-critic algorithms, what the critic learns; `Batch.values` is then set.
        normaliser: Scales each step by the norm of what its clip removed; None for no scaling.
        adapt: For a loss whose constants depend on the whole optimiser step: called with that
            step's log-probabilities without gradient, batch and advantages before its
            micro-batches, it gives the loss to use instead of `loss`. Costs a forward pass.
        zero_advantage_is_inert: A row whose advantages are all 0 has no gradient, so the trainer
            may leave out its forward and backward pass.
    """

    advantage: Callable[[Batch], Tensor]
    loss: Loss
    weights: Callable[[Tensor], Tensor]
    value: ValueFunction | None = None
    normaliser: Normaliser | None = None
    adapt: Callable[[Tensor, Batch, Tensor], Loss] | None = None
    zero_advantage_is_inert: bool = True
