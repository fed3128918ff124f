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
    _, cell = torch.unique(torch.stack(keys, dim=1), dim=0, return_inverse=True)
    count = int(cell.max()) + 1 if len(cell) else 0
    sizes = rewards.new_zeros(count).index_add(0, cell, torch.ones_like(rewards))
    mean = rewards.new_zeros(count).index_add(0, cell, rewards) / sizes
    centred = rewards - mean[cell]
    variance = rewards.new_zeros(count).index_add(0, cell, centred.square()) / sizes
    lowest = rewards.new_full((count,), torch.inf).scatter_reduce(0, cell, rewards, "amin")
    highest = rewards.new_full((count,), -torch.inf).scatter_reduce(0, cell, rewards, "amax")
    advantage = centred / (variance.sqrt() + eps)[cell]
    return torch.where((highest > lowest)[cell], advantage, torch.zeros_like(advantage))


def broadcast(per_trajectory: Tensor, action_mask: Tensor) -> Tensor:
    """A (B,) advantage on every action token: (B, T), 0 elsewhere."""
    return per_trajectory[:, None] * action_mask
