"""The turns of a batch by what the agent had just read (the anchor states of GiGPO)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from .types import Batch


@dataclass(frozen=True, slots=True)
class AnchoredTurns:
    """S turns of all trajectories.

    Attributes:
        rows: (S,) int64, the trajectory.
        turns: (S,) int64, the turn in it.
        anchors: (S,) int64, equal for turns of one group before which the same tokens were read.
        returns: (S,) float, the discounted sum of rewards from the turn on.
    """

    rows: Tensor
    turns: Tensor
    anchors: Tensor
    returns: Tensor


def anchored_turns(batch: Batch, gamma: float) -> AnchoredTurns:
    """Group turns by the tokens between the turn before and themselves.

    Args:
        batch: Of whole groups.
        gamma: Discount per turn.
    """
    returns = _returns_to_go(batch.rewards, gamma)
    groups = batch.group_ids.tolist()
    known: dict[tuple[int, tuple[int, ...]], int] = {}
    rows, turns, anchors = [], [], []
    for row in range(len(batch)):
        for turn, read in _readings(batch, row):
            rows.append(row)
            turns.append(turn)
            anchors.append(known.setdefault((groups[row], read), len(known)))
    index = torch.tensor([rows, turns, anchors], dtype=torch.int64, device=returns.device)
    return AnchoredTurns(index[0], index[1], index[2], returns[index[0], index[1]])


def _returns_to_go(rewards: Tensor, gamma: float) -> Tensor:
    """(B, K): sum over later turns j of gamma^(j - k) r_j."""
    returns = rewards.clone()
    for turn in range(rewards.shape[1] - 2, -1, -1):
        returns[:, turn] += gamma * returns[:, turn + 1]
    return returns


def _readings(batch: Batch, row: int) -> list[tuple[int, tuple[int, ...]]]:
    """Each turn of a row, and the ids read since the turn before."""
    ids = batch.input_ids[row].tolist()
    turns = torch.where(batch.action_mask[row], batch.turn_ids[row], -1).tolist()
    result, read, current = [], [], -1
    for token, turn in zip(ids, turns, strict=True):
        if turn == -1:
            read.append(token)
        elif turn != current:
            result.append((turn, tuple(read)))
            read, current = [], turn
    return result


def to_tokens(scores: Tensor, turns: AnchoredTurns, batch: Batch) -> Tensor:
    """Scores of turns (S,) on each of their action tokens: (B, T), 0 elsewhere."""
    table = scores.new_zeros(batch.rewards.shape)
    table[turns.rows, turns.turns] = scores
    places = torch.where(batch.action_mask, batch.turn_ids, 0)
    return torch.where(batch.action_mask, table.gather(1, places), 0.0)
