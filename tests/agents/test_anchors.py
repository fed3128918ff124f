"""GiGPO's groups of turns, by hand."""

import pytest
import torch

from agents.algorithms import gigpo, grpo
from agents.anchors import anchored_turns, to_tokens
from agents.batching import to_batch
from tests.agents import builds

PROMPT, SAME, OTHER = [1, 2], [5, 6], [7]


def batch():
    """Two groups; both first turns of a group are in the same state, and two second ones are."""
    rows = [
        builds.trajectory((PROMPT, [10, 11]), (SAME, [12]), rewards=[0.0, 1.0], group_id=1),
        builds.trajectory((PROMPT, [13]), (SAME, [14, 15]), rewards=[0.5, 0.0], group_id=1),
        builds.trajectory((PROMPT, [16]), (OTHER, [17]), rewards=[0.0, 2.0], group_id=1),
        builds.trajectory((PROMPT, [18]), rewards=[1.0], group_id=2),
    ]
    return builds.double(to_batch(rows, 0))


def test_turns_with_the_same_reading_in_the_same_group_share_an_anchor() -> None:
    turns = anchored_turns(batch(), gamma=0.5)
    assert turns.rows.tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert turns.turns.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert turns.anchors.tolist() == [0, 1, 0, 1, 0, 2, 3]
    # From the turn on, halved per turn: 0 + 1/2, 1 | 0.5 + 0, 0 | 0 + 2/2, 2 | 1.
    assert turns.returns.tolist() == [0.5, 1.0, 0.5, 0.0, 1.0, 2.0, 1.0]


def test_scores_stand_on_every_action_token_of_their_turn() -> None:
    whole = batch()
    turns = anchored_turns(whole, gamma=1.0)
    spread = to_tokens(torch.arange(7.0), turns, whole)
    assert [row[m].tolist() for row, m in zip(spread, whole.action_mask, strict=True)] == [
        [0.0, 0.0, 1.0],
        [2.0, 3.0, 3.0],
        [4.0, 5.0],
        [6.0],
    ]
    assert not spread[~whole.action_mask].any()


def test_the_step_advantage_by_hand() -> None:
    """Only centred: first turns' returns 1, 0.5, 2 (mean 7/6); second turns' 1, 0 | 2 alone."""
    whole = batch()
    algorithm = gigpo.build(gigpo.Config(omega=2.0, use_std=False))
    step = algorithm.advantage(whole) - grpo.build(grpo.Config()).advantage(whole)
    got = [row[m].tolist() for row, m in zip(step, whole.action_mask, strict=True)]
    first = [2 * (value - 7 / 6) for value in (1.0, 0.5, 2.0)]
    assert got[0] == pytest.approx([first[0], first[0], 1.0])
    assert got[1] == pytest.approx([first[1], -1.0, -1.0])
    assert got[2] == pytest.approx([first[2], 0.0])
    assert got[3] == [0.0]
