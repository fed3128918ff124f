"""Advantages as pure functions of arrays.

B trajectories, T tokens. Nothing here knows a config, a model or a trainer.
"""

import torch
from torch import Tensor


def standardize_within(rewards: Tensor, *keys: Tensor, eps: float = 1e-8) -> Tensor:
    """Rewards standardised within the cells that the keys define.

    (R_i - mean) / (std + eps) with the population std over the rows that agree in every key. A cell
    of one row, or whose rewards are all equal, gives exactly 0: in float32 seven rewards of 0.7
    with eps 1e-8 would otherwise give 0.86 out of rounding.

    One key (group) is GRPO (arXiv:2402.03300, Eq. 4 of its section 4.1); two keys (group, stratum)
    are the stratified advantage SAN of arXiv:2510.06214.

    Args:
        rewards: (B,) float.
        *keys: Each (B,) int64; at least one.
        eps: Added to the standard deviation.

    Returns:
        (B,) in the dtype of `rewards`.
    """
    cell, sizes = _cells(rewards, keys)
    centred = _centred(rewards, cell, sizes)
    variance = torch.zeros_like(sizes).index_add(0, cell, centred.square()) / sizes
    # The centred values are exactly 0 where all are equal, and so is their quotient.
    scale = torch.where(variance > 0, variance.sqrt() + eps, torch.ones_like(variance))
    return centred / scale[cell]


def center_within(rewards: Tensor, *keys: Tensor) -> Tensor:
    """Rewards less their mean within the cells that the keys define: (B,).

    Exactly 0 where all are equal. Args as in `standardize_within`.
    """
    return _centred(rewards, *_cells(rewards, keys))


def leave_one_out(rewards: Tensor, *keys: Tensor) -> Tensor:
    """Each reward less the mean of the others in its cell; 0 where there is no other: (B,).

    RLOO (arXiv:2402.14740, Eq. 5): R_i - sum_{j != i} R_j / (n - 1) = (R_i - mean) n / (n - 1).
    """
    cell, sizes = _cells(rewards, keys)
    return _centred(rewards, cell, sizes) * (sizes / (sizes - 1).clamp(min=1))[cell]


def whiten(values: Tensor, action_mask: Tensor, eps: float = 1e-8) -> Tensor:
    """Values standardised over all action tokens, 0 where all are equal: (B, T), 0 off the mask."""
    standard = torch.zeros_like(values)
    chosen = values[action_mask]
    standard[action_mask] = standardize_within(chosen, torch.zeros_like(chosen).long(), eps=eps)
    return standard


def gae(rewards: Tensor, values: Tensor, action_mask: Tensor, gamma: float, lam: float) -> Tensor:
    """Generalised advantage estimation over action tokens alone (arXiv:1506.02438, Eq. 16).

    The next state of a token is that before the next token the agent samples: observations between
    two turns are no steps, however long they are.

    Args:
        rewards: (B, T) per action token.
        values: (B, T), V of the state before the token.
        action_mask: (B, T) bool.
        gamma: Discount per action token.
        lam: The lambda of GAE.

    Returns:
        (B, T), 0 off the mask.
    """
    advantages = torch.zeros_like(values)
    following = values.new_zeros(len(values))
    next_value = values.new_zeros(len(values))
    for t in range(values.shape[1] - 1, -1, -1):
        on = action_mask[:, t]
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        following = torch.where(on, delta + gamma * lam * following, following)
        next_value = torch.where(on, values[:, t], next_value)
        advantages[:, t] = torch.where(on, following, advantages[:, t])
    return advantages


def broadcast(per_trajectory: Tensor, action_mask: Tensor) -> Tensor:
    """A (B,) advantage on every action token: (B, T), 0 elsewhere."""
    return per_trajectory[:, None] * action_mask


def _cells(rewards: Tensor, keys: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """The cell of each row (B,), and the number of rows of each cell."""
    _, cell = torch.unique(torch.stack(keys, dim=1), dim=0, return_inverse=True)
    count = int(cell.max()) + 1 if len(cell) else 0
    return cell, rewards.new_zeros(count).index_add(0, cell, torch.ones_like(rewards))


def _centred(rewards: Tensor, cell: Tensor, sizes: Tensor) -> Tensor:
    """Rewards less the mean of their cell, exactly 0 in cells whose rewards are all equal."""
    mean = torch.zeros_like(sizes).index_add(0, cell, rewards) / sizes
    lowest = torch.full_like(sizes, torch.inf).scatter_reduce(0, cell, rewards, "amin")
    highest = torch.full_like(sizes, -torch.inf).scatter_reduce(0, cell, rewards, "amax")
    centred = rewards - mean[cell]
    return torch.where((highest > lowest)[cell], centred, torch.zeros_like(centred))
