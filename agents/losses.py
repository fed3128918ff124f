"""Losses as pure functions of arrays.

B trajectories, T tokens. A mask is (B, T) bool, True on the tokens the agent sampled; whatever
stands elsewhere, NaN included, has no influence on a value or a gradient.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .ratios import log_ratio


@dataclass(frozen=True, slots=True)
class Terms:
    """A loss before it is averaged.

    Attributes:
        per_token: (B, T), differentiable; only action tokens count.
        clipped: (B, T) bool, the tokens whose gradient the clip removed.
        unclipped: (B, T), differentiable: `per_token` as it would be without the clip, equal to it
            wherever nothing is clipped; None if the loss has no clip.
    """

    per_token: Tensor
    clipped: Tensor
    unclipped: Tensor | None = None

    def times(self, weights: Tensor) -> "Terms":
        """Each token's loss, and its share of what a clip removes, times a constant (B, T)."""
        unclipped = None if self.unclipped is None else self.unclipped * weights
        return Terms(self.per_token * weights, self.clipped, unclipped)


def clipped_surrogate(
    ratios: Tensor, advantages: Tensor, low: float, high: float, dual: float | None = None
) -> Terms:
    """PPO's clipped objective as a loss (arXiv:1707.06347, Eq. 7).

    -min(w A, clip(w, low, high) A). A token counts as clipped when min() picks the constant branch:
    A > 0 and w > high, or A < 0 and w < low. A ratio outside the band with the harmless sign is not
    clipped, unless the dual clip (arXiv:1912.09729, Eq. 5) bounds the loss of A < 0 by -dual A.

    Args:
        ratios: (B, T), differentiable.
        advantages: (B, T), constant.
        low: Lower bound of the ratio.
        high: Upper bound of the ratio.
        dual: Upper bound of the ratio where A < 0; None for none.
    """
    unclipped = -ratios * advantages
    loss = torch.maximum(unclipped, -ratios.clamp(low, high) * advantages)
    clipped = ((advantages > 0) & (ratios > high)) | ((advantages < 0) & (ratios < low))
    if dual is not None:
        negative = advantages < 0
        loss = torch.where(negative, torch.minimum(loss, -dual * advantages), loss)
        clipped = clipped | (negative & (ratios > dual))
    return Terms(loss, clipped, unclipped)


def without_clip(per_token: Tensor) -> Terms:
    """A loss that clips nothing."""
    return Terms(per_token, torch.zeros_like(per_token, dtype=torch.bool))


def log_likelihood(logprobs: Tensor, action_mask: Tensor) -> Tensor:
    """The log-probabilities on the mask, 0 without gradient off it: (B, T)."""
    return torch.where(action_mask, logprobs, torch.zeros_like(logprobs))


def value_loss(values: Tensor, old_values: Tensor, targets: Tensor, clip: float) -> Tensor:
    """PPO's clipped value loss per token: (B, T), differentiable in `values`.

    max((V - target)^2, (V_old + clip(V - V_old, +-clip) - target)^2) / 2, as in OpenAI's baselines.
    """
    near = old_values + (values - old_values).clamp(-clip, clip)
    return 0.5 * torch.maximum((values - targets).square(), (near - targets).square())


def kl(estimator: str, logprobs: Tensor, ref_logprobs: Tensor, action_mask: Tensor) -> Tensor:
    """An estimate of KL(policy || reference) per token; 0 off the mask.

    With d = ref_logprobs - logprobs: k1 = -d, k2 = d^2 / 2, k3 = exp(d) - d - 1
    (http://joschu.net/blog/kl-approx.html). k1 and k3 are unbiased under the policy; k3 and k2 are
    never negative. As a loss only k2 has the gradient of the KL; that of k1 is 0 in expectation.

    Returns:
        (B, T), differentiable in `logprobs`.
    """
    difference = log_ratio(ref_logprobs, logprobs, action_mask)
    if estimator == "k1":
        return -difference
    if estimator == "k2":
        return difference.square() / 2
    return difference.exp() - difference - 1


def sequence_mean_weights(action_mask: Tensor) -> Tensor:
    """Weights that average over a trajectory's action tokens, then over trajectories.

    A trajectory without action tokens weighs nothing but still counts as one of B.

    Returns:
        (B, T) float64 with 1 / (B |y|) on the action tokens.
    """
    lengths = action_mask.sum(1, keepdim=True).clamp(min=1)
    return action_mask.double() / (lengths * max(len(action_mask), 1))


def token_mean_weights(action_mask: Tensor) -> Tensor:
    """Weights that average over all action tokens of the step: (B, T) float64."""
    return action_mask.double() / action_mask.sum().clamp(min=1)


def constant_weights(action_mask: Tensor, max_tokens: int) -> Tensor:
    """Weights 1 / (B max_tokens) on the action tokens, whatever a trajectory's length."""
    return action_mask.double() / (max(len(action_mask), 1) * max_tokens)
