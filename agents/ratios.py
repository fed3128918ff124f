"""Importance ratios as pure functions of arrays.

B trajectories, T tokens. A mask is (B, T) bool, True on the tokens the agent sampled; whatever
stands elsewhere, NaN included, has no influence on a value or a gradient.
"""

import torch
from torch import Tensor

LOG_RATIO_LIMIT = 20.0  # nats; e^20 = 5e8, far outside any clip band


def log_ratio(numerator: Tensor, denominator: Tensor, action_mask: Tensor) -> Tensor:
    """Their difference within +-LOG_RATIO_LIMIT; 0, without gradient, off the mask.

    Masked and bounded before any exp: a garbage difference at an observation, or a token that the
    sampling policy could not have drawn, must not become inf, whose gradient is NaN.

    Args:
        numerator: (B, T) log-probabilities.
        denominator: (B, T) log-probabilities.
        action_mask: (B, T) bool.

    Returns:
        (B, T) nats.
    """
    difference = torch.where(action_mask, numerator - denominator, torch.zeros_like(numerator))
    return difference.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def token_ratio(logprobs: Tensor, old_logprobs: Tensor, action_mask: Tensor) -> Tensor:
    """The ratio of each token, exp(logprobs - old_logprobs): (B, T); 1 off the mask."""
    return log_ratio(logprobs, old_logprobs, action_mask).exp()


def turn_ratio(
    logprobs: Tensor, old_logprobs: Tensor, action_mask: Tensor, turn_ids: Tensor
) -> Tensor:
    """The geometric mean of a turn's token ratios, on each of its tokens.

    w_k = exp(1/|y^k| sum_{t in k} log w_t), differentiated through the mean (SORL,
    arXiv:2511.20718). With one turn it is the sequence ratio of GSPO, with turns of one token the
    token ratio.

    Args:
        logprobs: (B, T), differentiable.
        old_logprobs: (B, T), constant.
        action_mask: (B, T) bool.
        turn_ids: (B, T) int64, the turn of an action token.

    Returns:
        (B, T); 1 off the mask.
    """
    logs = log_ratio(logprobs, old_logprobs, action_mask)
    means = turn_mean(logs, action_mask, turn_ids)
    return torch.where(action_mask, means, torch.zeros_like(means)).exp()


def sequence_ratio(logprobs: Tensor, old_logprobs: Tensor, action_mask: Tensor) -> Tensor:
    """The geometric mean over a trajectory's action tokens (GSPO, arXiv:2507.18071, Eq. 7)."""
    whole = torch.zeros_like(action_mask, dtype=torch.int64)
    return turn_ratio(logprobs, old_logprobs, action_mask, whole)


def turn_mean(values: Tensor, action_mask: Tensor, turn_ids: Tensor) -> Tensor:
    """The mean of a turn's values on each of its action tokens: (B, T); 0 off the mask."""
    rows = len(values)
    turns = torch.where(action_mask, turn_ids, torch.zeros_like(turn_ids))
    count = int(turns.max()) + 1 if turns.numel() else 1
    kept = torch.where(action_mask, values, torch.zeros_like(values))
    sums = values.new_zeros(rows, count).scatter_add(1, turns, kept)
    sizes = values.new_zeros(rows, count).scatter_add(1, turns, action_mask.to(values.dtype))
    means = (sums / sizes.clamp(min=1)).gather(1, turns)
    return torch.where(action_mask, means, torch.zeros_like(means))
