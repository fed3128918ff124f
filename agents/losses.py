"""Losses as pure functions of arrays.

B trajectories, T tokens. A mask is (B, T) bool, True on the tokens the agent sampled; whatever
stands elsewhere, NaN included, has no influence on a value or a gradient.
"""

import torch
from torch import Tensor

LOG_RATIO_LIMIT = 20.0  # nats; e^20 = 5e8, far outside any clip band


def ratio(logprobs: Tensor, old_logprobs: Tensor, action_mask: Tensor) -> Tensor:
    """The importance ratio per token, exp(logprobs - old_logprobs); 1 off the mask.

    Args:
        logprobs: (B, T), differentiable.
        old_logprobs: (B, T), constant.
        action_mask: (B, T) bool.

    Returns:
        (B, T).
    """
    return _log_ratio(logprobs, old_logprobs, action_mask).exp()


def _log_ratio(numerator: Tensor, denominator: Tensor, action_mask: Tensor) -> Tensor:
    """Their difference within +-LOG_RATIO_LIMIT; 0, without gradient, off the mask.

    Masked and bounded before exp: a garbage difference at an observation, or a token that the
    sampling policy could not have drawn, must not become inf, whose gradient is NaN.
    """
    difference = torch.where(action_mask, numerator - denominator, torch.zeros_like(numerator))
    return difference.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def clipped_surrogate(
    ratios: Tensor, advantages: Tensor, clip_low: float, clip_high: float
) -> tuple[Tensor, Tensor]:
    """PPO's clipped objective as a loss (arXiv:1707.06347, Eq. 7).

    -min(w A, clip(w, 1 - clip_low, 1 + clip_high) A). A token counts as clipped when min() picks
    the constant branch: A > 0 and w > 1 + clip_high, or A < 0 and w < 1 - clip_low. A ratio outside
    the band with the harmless sign is not clipped.

    Args:
        ratios: (B, T), differentiable.
        advantages: (B, T), constant.
        clip_low: Distance of the lower bound from 1.
        clip_high: Distance of the upper bound from 1.

    Returns:
        The loss per token (B, T) and the clipped tokens (B, T) bool.
    """
    bounded = ratios.clamp(1 - clip_low, 1 + clip_high)
    loss = -torch.minimum(ratios * advantages, bounded * advantages)
    clipped = ((advantages > 0) & (ratios > 1 + clip_high)) | (
        (advantages < 0) & (ratios < 1 - clip_low)
    )
    return loss, clipped


def kl_k3(logprobs: Tensor, ref_logprobs: Tensor, action_mask: Tensor) -> Tensor:
    """Schulman's k3 estimate of KL(policy || reference) per token; 0 off the mask.

    exp(d) - d - 1 with d = ref_logprobs - logprobs: non-negative, unbiased under the policy
    (http://joschu.net/blog/kl-approx.html).

    Returns:
        (B, T), differentiable in `logprobs`.
    """
    difference = _log_ratio(ref_logprobs, logprobs, action_mask)
    return difference.exp() - difference - 1


def sequence_mean_weights(action_mask: Tensor) -> Tensor:
    """Weights that average over a trajectory's action tokens, then over trajectories.

    A trajectory without action tokens weighs nothing but still counts as one of B.

    Returns:
        (B, T) float32 with 1 / (B |y|) on the action tokens.
    """
    lengths = action_mask.sum(1, keepdim=True).clamp(min=1)
    return action_mask.float() / (lengths * max(len(action_mask), 1))


def token_mean_weights(action_mask: Tensor) -> Tensor:
    """Weights that average over all action tokens of the step: (B, T) float32."""
    return action_mask.float() / action_mask.sum().clamp(min=1)
