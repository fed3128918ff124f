"""Strata: into what the trajectories of a group are divided. Each gives (B,) int64 labels."""

import torch
from torch import Tensor

from .types import Batch


def searches(batch: Batch) -> Tensor:
    """Executed searches; an invalid turn is none."""
    return batch.strata


def turns(batch: Batch) -> Tensor:
    """Turns taken."""
    return batch.num_turns


def shuffled(batch: Batch) -> Tensor:
    """The search strata, dealt out anew within each group: equal sizes, no meaning.

    The draw depends on the group's id alone, so that a resumed run makes the same.
    """
    labels = batch.strata.clone()
    for group in batch.group_ids.unique().tolist():
        rows = (batch.group_ids == group).nonzero()[:, 0]
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(group))
        labels[rows] = batch.strata[rows[order.to(rows.device)]]
    return labels


KEYS = {"searches": searches, "turns": turns, "random": shuffled}
