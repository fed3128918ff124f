"""What an algorithm is: the signatures of the plug points.

An algorithm is data: three functions and what they need. The trainer knows no algorithm by name.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from .types import Batch


@dataclass(frozen=True, slots=True)
class Terms:
    """A loss before it is averaged.

    Attributes:
        per_token: (B, T), differentiable; only action tokens count.
        clipped: (B, T) bool, the tokens whose gradient the clip removed.
    """

    per_token: Tensor
    clipped: Tensor


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One paper variant.

    The gradient of an optimiser step is that of sum(weights * (per_token + kl_coef * k3)), summed
    over its micro-batches; since the weights are fixed for the whole step, any split gives the same
    one.

    Attributes:
        advantage: Batch -> (B, T), once per rollout batch, without gradient; sees whole groups.
        loss: (logprobs (B, T) with gradient, Batch, advantages (B, T)) -> Terms, per micro-batch.
        weights: action_mask (B, T) -> (B, T), how tokens are averaged, for the whole step.
        kl_coef: Weight of the k3 KL to the reference policy (the adapter switched off); 0 for none.
        zero_advantage_is_inert: A row whose advantages are all 0 has no gradient (unless kl_coef
            is set), so the trainer may leave out its forward and backward pass.
    """

    advantage: Callable[[Batch], Tensor]
    loss: Callable[[Tensor, Batch, Tensor], Terms]
    weights: Callable[[Tensor], Tensor]
    kl_coef: float = 0.0
    zero_advantage_is_inert: bool = True
