"""The nouns of training check themselves, and a batch's rows stay whole."""

from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.batching import to_batch
from agents.types import Batch, Turn
from tests.agents import builds

PER_ROW = ("rewards", "group_ids", "strata")


def batch(rows: int = 6) -> Batch:
    made = builds.double(to_batch(builds.random_trajectories(rows, seed=2), 1))
    values, penalties, corrections = (made.ref_logprobs * factor for factor in (2, 3, 4))
    return replace(made, values=values, penalties=penalties, corrections=corrections)


def test_a_turns_ids_and_logprobs_agree_in_number() -> None:
    step = builds.trajectory(([1], [2])).turns[0].step
    with pytest.raises(ValueError, match="2 action ids but 1 log-probabilities"):
        Turn((1,), (2, 3), (-0.5,), step)


def test_a_trajectory_adds_up() -> None:
    made = builds.trajectory(([1], [2, 3]), ([4], [5]), rewards=[0.25, 0.5], searches=1, group_id=8)
    assert (made.reward, made.stratum, made.num_action_tokens) == (0.75, 1, 3)


@pytest.mark.parametrize(
    "name", ["attention_mask", "action_mask", "turn_ids", "old_logprobs", "ref_logprobs", "values"]
)
def test_a_tensor_of_another_width_is_refused(name) -> None:
    good = batch()
    with pytest.raises(ValueError, match=f"{name}: expected shape"):
        replace(good, **{name: getattr(good, name)[:, :-1]})


@pytest.mark.parametrize("name", ["group_ids", "strata", "rewards"])
def test_a_tensor_of_other_rows_is_refused(name) -> None:
    good = batch()
    with pytest.raises(ValueError, match=f"{name}: expected"):
        replace(good, **{name: getattr(good, name)[:-1]})


def test_returns_lengths_and_size() -> None:
    made = builds.trajectory(([1], [2, 3]), ([4], [5]), rewards=[0.25, 0.5])
    small = to_batch([made, builds.trajectory(([1, 2], [3]))], 0)
    assert (len(small), small.returns.tolist(), small.lengths.tolist()) == (2, [0.75, 0.0], [5, 3])


@settings(deadline=None)
@given(rows=st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_t19_selected_rows_keep_everything_that_is_theirs(rows) -> None:
    whole = batch()
    part = whole.select(torch.tensor(rows))
    width = int(whole.lengths[rows].max())
    assert part.input_ids.shape == (len(rows), width)
    for field in fields(Batch):
        mine, theirs = getattr(part, field.name), getattr(whole, field.name)
        for place, row in enumerate(rows):
            expected = theirs[row] if field.name in PER_ROW else theirs[row, :width]
            assert torch.equal(mine[place], expected)


def test_selecting_nothing_and_optional_tensors() -> None:
    whole = replace(batch(), values=None, penalties=None)
    none = whole.select(torch.tensor([], dtype=torch.int64))
    assert len(none) == 0 and none.values is None
    assert whole.select(torch.tensor([1])).values is None


def test_to_moves_everything() -> None:
    moved = replace(batch(), values=None, penalties=None).to(torch.device("meta"))
    devices = {
        getattr(moved, field.name).device.type
        for field in fields(Batch)
        if getattr(moved, field.name) is not None
    }
    assert devices == {"meta"} and moved.values is None


def test_penalties_come_off_the_returns_and_off_each_token() -> None:
    made = builds.trajectory(([1], [2, 3]), ([4], [5]), rewards=[0.25, 0.5])
    plain = to_batch([made, builds.trajectory(([1, 2], [3]), rewards=[1.0])], 0)
    # Each turn is paid on its last action token.
    assert plain.token_rewards.tolist() == [[0, 0, 0.25, 0, 0.5], [0, 0, 1.0, 0, 0]]
    assert plain.num_turns.tolist() == [2, 1]
    assert plain.openings.tolist() == [1, 2]
    assert replace(plain, action_mask=plain.action_mask & False).openings.tolist() == [0, 0]
    costs = torch.tensor([[9.0, 0.1, 0.2, 9.0, 0.3], [9.0, 9.0, 0.4, 9.0, 9.0]])
    dear = replace(plain, penalties=costs)
    assert dear.returns.tolist() == pytest.approx([0.75 - 0.6, 1.0 - 0.4])
    expected = [0, -0.1, 0.05, 0, 0.2], [0, 0, 0.6, 0, 0]
    for got, row in zip(dear.token_rewards.tolist(), expected, strict=True):
        assert got == pytest.approx(row)
    assert torch.allclose(dear.token_rewards.sum(1), dear.returns)
