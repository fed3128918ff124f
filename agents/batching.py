"""Trajectories -> Batch, token-exact: ids as sampled and read, never text encoded again."""

from collections.abc import Sequence

import torch

from .types import Batch, Trajectory


def to_batch(trajectories: Sequence[Trajectory], pad_id: int) -> Batch:
    """Lay trajectories out as tensors.

    The action mask comes from provenance (which list a token stands in), never from the token: a
    pad id equal to the end-of-text id, or tags written by a passage, cannot confuse it.

    Args:
        trajectories: At least one; of any lengths and numbers of turns.
        pad_id: Fills `input_ids` on the right.

    Returns:
        A batch on the CPU in the order given.

    Raises:
        ValueError: No trajectories.
    """
    if not trajectories:
        raise ValueError("to_batch: no trajectories")
    shape = (len(trajectories), max(map(_num_tokens, trajectories)))
    input_ids = torch.full(shape, pad_id, dtype=torch.int64)
    attention_mask = torch.zeros(shape, dtype=torch.bool)
    turn_ids = torch.full(shape, -1, dtype=torch.int64)
    old_logprobs = torch.zeros(shape)
    rewards = torch.zeros(len(trajectories), max(len(t.turns) for t in trajectories))
    for row, trajectory in enumerate(trajectories):
        start = 0
        for index, turn in enumerate(trajectory.turns):
            middle = start + len(turn.prompt_ids)
            end = middle + len(turn.action_ids)
            input_ids[row, start:end] = torch.tensor((*turn.prompt_ids, *turn.action_ids))
            turn_ids[row, middle:end] = index
            old_logprobs[row, middle:end] = torch.tensor(turn.logprobs)
            rewards[row, index] = turn.step.reward
            start = end
        attention_mask[row, :start] = True
    return Batch(
        input_ids=input_ids,
        attention_mask=attention_mask,
        action_mask=turn_ids >= 0,
        turn_ids=turn_ids,
        old_logprobs=old_logprobs,
        rewards=rewards,
        group_ids=torch.tensor([t.group_id for t in trajectories]),
        strata=torch.tensor([t.stratum for t in trajectories]),
    )


def _num_tokens(trajectory: Trajectory) -> int:
    return sum(len(turn.prompt_ids) + len(turn.action_ids) for turn in trajectory.turns)


def micro_batches(
    lengths: Sequence[int], prompts: Sequence[tuple[int, ...]], max_tokens: int
) -> list[list[int]]:
    """Group rows of similar length so that rows x longest row stays within a token budget.

    Rows of one prompt stay together, which saves reading it again (agents/shared_prompts.py), as
    long as that is more than the padding which it costs.

    Args:
        lengths: Tokens of each row.
        prompts: The tokens that each row begins with.
        max_tokens: Budget of one micro-batch, padding included; a single longer row stands alone.

    Returns:
        Lists of row indices, the longest row in the first, so that an out-of-memory error comes at
        once.
    """
    groups: list[list[int]] = []
    longest = 0  # of the last group
    for row in _by_prompt(lengths, prompts):
        longest = max(longest, lengths[row])
        if groups and longest * (len(groups[-1]) + 1) <= max_tokens:
            groups[-1].append(row)
        else:
            groups.append([row])
            longest = lengths[row]
    return groups


def _by_prompt(lengths: Sequence[int], prompts: Sequence[tuple[int, ...]]) -> list[int]:
    """Runs of rows of one prompt, longest first; runs in the order of their first rows."""
    runs: dict[tuple[int, ...], list[list[int]]] = {}
    ordered = []
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        known = runs.setdefault(prompts[row], [])
        if not known or lengths[known[-1][0]] - lengths[row] > len(prompts[row]):
            known.append([])
            ordered.append(known[-1])
        known[-1].append(row)
    return [row for run in ordered for row in run]
