"""Ratios: exact numbers, a loop over tokens, and T3: nothing off the mask has a say."""

import math

import pytest
import torch

from agents.losses import clipped_surrogate
from agents.ratios import sequence_ratio, token_ratio, turn_mean, turn_ratio
from tests.agents import builds

GARBAGE = [math.nan, math.inf, -math.inf, 1e30, -1e30]


def f64(values, requires_grad: bool = False) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=requires_grad)


class TestTokenRatio:
    def test_it_is_the_exponential_of_the_difference(self) -> None:
        mask = torch.tensor([[True, True, False]])
        got = token_ratio(f64([[-1.0, -2.0, -3.0]]), f64([[-1.5, -2.0, -9.0]]), mask)
        assert got[0].tolist() == pytest.approx([math.exp(0.5), 1.0, 1.0])

    @pytest.mark.parametrize("garbage", GARBAGE)
    def test_t3_garbage_off_the_mask_gives_1_and_no_gradient(self, garbage) -> None:
        mask = torch.tensor([[True, False, False]])
        logprobs = f64([[-1.0, garbage, -1.0]], requires_grad=True)
        got = token_ratio(logprobs, f64([[-1.5, -1.0, garbage]]), mask)
        got.sum().backward()
        assert got[0].tolist() == pytest.approx([math.exp(0.5), 1.0, 1.0])
        assert logprobs.grad[0].tolist() == pytest.approx([math.exp(0.5), 0.0, 0.0])

    @pytest.mark.parametrize("old", [-math.inf, -1e4])
    def test_t15_an_old_logprob_of_minus_infinity_makes_no_nan(self, old) -> None:
        """A token that the sampling policy could not have drawn: ratio huge, gradient finite."""
        mask = torch.tensor([[True, True]])
        logprobs = f64([[-1.0, -1.0]], requires_grad=True)
        for advantage in (1.0, -1.0):
            logprobs.grad = None
            ratios = token_ratio(logprobs, f64([[old, -1.0]]), mask)
            terms = clipped_surrogate(ratios, f64([[advantage] * 2]), 0.8, 1.2)
            terms.per_token.sum().backward()
            assert terms.per_token.isfinite().all() and logprobs.grad.isfinite().all()
            # A > 0: min() has clipped it. The healthy token has -A w, with w = 1.
            assert terms.clipped[0].tolist() == [advantage > 0, False]
            assert logprobs.grad[0, 1].item() == -advantage
            if advantage > 0:
                assert logprobs.grad[0, 0].item() == 0.0


class TestTurnRatio:
    MASK = torch.tensor([[False, True, True, False, True, True, True]])
    TURNS = torch.tensor([[-1, 0, 0, -1, 1, 1, 1]])
    NEW = ((0.0, -1.0, -2.0, 0.0, -1.0, -1.0, -1.0),)
    OLD = ((0.0, -1.5, -2.1, 0.0, -0.7, -1.3, -0.4),)

    def test_by_hand(self) -> None:
        # Log-ratios 0.5, 0.1 | -0.3, 0.3, -0.6: means 0.3 and -0.2.
        got = turn_ratio(f64(self.NEW), f64(self.OLD), self.MASK, self.TURNS)[0]
        first, second = math.exp(0.3), math.exp(-0.2)
        assert got.tolist() == pytest.approx([1, first, first, 1, second, second, second])
        whole = sequence_ratio(f64(self.NEW), f64(self.OLD), self.MASK)[0]
        # All five: 0 / 5.
        assert whole.tolist() == pytest.approx([1.0] * 7)

    def test_the_gradient_goes_through_the_mean(self) -> None:
        """d w_k / d log pi_s = w_k / |y^k| for every token s of the turn, and 0 for others."""
        new = f64(self.NEW, requires_grad=True)
        turn_ratio(new, f64(self.OLD), self.MASK, self.TURNS)[0, 4].backward()
        third = math.exp(-0.2) / 3
        assert new.grad[0].tolist() == pytest.approx([0, 0, 0, 0, third, third, third])

    @pytest.mark.parametrize("garbage", GARBAGE)
    def test_t3_garbage_off_the_mask_changes_nothing(self, garbage) -> None:
        new = f64(self.NEW)
        dirty = torch.where(self.MASK, new, garbage).requires_grad_()
        turns = torch.where(self.MASK, self.TURNS, 10**6)
        got = turn_ratio(dirty, f64(self.OLD), self.MASK, turns)
        assert torch.equal(got, turn_ratio(new, f64(self.OLD), self.MASK, self.TURNS))
        got.sum().backward()
        assert dirty.grad.isfinite().all() and not dirty.grad[~self.MASK].any()

    def test_p5_p6_on_ragged_batches(self) -> None:
        """One turn: the sequence's ratio. One token a turn: the token's. Between min and max."""
        batch = builds.random_batch(3)
        mask, old = batch.action_mask, batch.old_logprobs
        new = old + 0.4 * torch.randn(old.shape, generator=torch.Generator().manual_seed(1))
        tokens, turns = token_ratio(new, old, mask), turn_ratio(new, old, mask, batch.turn_ids)
        whole = sequence_ratio(new, old, mask)
        single = torch.where(mask, torch.zeros_like(batch.turn_ids), -1)
        assert torch.allclose(turn_ratio(new, old, mask, single), whole, rtol=1e-12, atol=0)
        own = torch.arange(mask.shape[1]).expand_as(batch.turn_ids)
        assert torch.allclose(turn_ratio(new, old, mask, own), tokens, rtol=1e-12, atol=0)
        for row in range(len(batch)):
            for turn in range(int(batch.num_turns[row])):
                here = batch.turn_ids[row] == turn
                (value,) = turns[row, here].unique().tolist() or [None]
                members = tokens[row, here]
                assert members.min() - 1e-12 <= value <= members.max() + 1e-12
                expected = math.exp(sum(math.log(w) for w in members.tolist()) / len(members))
                assert value == pytest.approx(expected, rel=1e-12)


def test_turn_mean_by_hand() -> None:
    mask = torch.tensor([[True, True, False, True], [False, False, False, False]])
    turns = torch.tensor([[0, 0, -1, 2], [-1, -1, -1, -1]])
    got = turn_mean(f64([[1.0, 4.0, math.nan, 7.0], [math.nan] * 4]), mask, turns)
    assert got.tolist() == [[2.5, 2.5, 0, 7], [0, 0, 0, 0]]
