"""Losses: exact numbers, a loop over tokens, and T3: nothing off the mask has a say."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.losses import (
    clipped_surrogate,
    constant_weights,
    kl,
    sequence_mean_weights,
    token_mean_weights,
    value_loss,
)

# Off the mask anything may stand: what a padded or an observed position would give.
GARBAGE = [math.nan, math.inf, -math.inf, 1e30, -1e30]


def f64(values, requires_grad: bool = False) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=requires_grad)


class TestClippedSurrogate:
    @pytest.mark.parametrize(
        ("w", "advantage", "loss", "slope", "clipped"),
        [
            # -min(w A, clip(w, 0.8, 1.3) A), its derivative in w, and whether min took the bound.
            (1.0, 2.0, -2.0, -2.0, False),
            (1.2, 2.0, -2.4, -2.0, False),
            (1.5, 2.0, -2.6, 0.0, True),  # 1.3 * 2
            (0.5, 2.0, -1.0, -2.0, False),  # outside the band, with the harmless sign
            (1.5, -2.0, 3.0, 2.0, False),  # harmless
            (0.5, -2.0, 1.6, 0.0, True),  # 0.8 * -2
            (0.9, -2.0, 1.8, 2.0, False),
            (1.5, 0.0, 0.0, 0.0, False),
        ],
    )
    def test_by_hand(self, w, advantage, loss, slope, clipped) -> None:
        ratios = f64([[w]], requires_grad=True)
        terms = clipped_surrogate(ratios, f64([[advantage]]), 0.8, 1.3)
        terms.per_token.sum().backward()
        assert terms.per_token.item() == pytest.approx(loss)
        assert ratios.grad.item() == pytest.approx(slope)
        assert terms.clipped.item() is clipped
        assert terms.unclipped.item() == pytest.approx(-w * advantage)

    @pytest.mark.parametrize(
        ("w", "advantage", "loss", "slope", "clipped"),
        [
            # A < 0: at most -c A = 6 for c = 3; below that as without the dual clip.
            (2.9, -2.0, 5.8, 2.0, False),
            (4.0, -2.0, 6.0, 0.0, True),
            (0.5, -2.0, 1.6, 0.0, True),
            (4.0, 2.0, -2.6, 0.0, True),  # A > 0 does not meet it
        ],
    )
    def test_the_dual_clip_by_hand(self, w, advantage, loss, slope, clipped) -> None:
        ratios = f64([[w]], requires_grad=True)
        terms = clipped_surrogate(ratios, f64([[advantage]]), 0.8, 1.3, dual=3.0)
        terms.per_token.sum().backward()
        assert terms.per_token.item() == pytest.approx(loss)
        assert ratios.grad.item() == pytest.approx(slope)
        assert terms.clipped.item() is clipped

    @settings(deadline=None)
    @given(w=st.floats(0, 4), advantage=st.floats(-3, 3))
    def test_the_loss_is_at_least_the_unclipped_one(self, w, advantage) -> None:
        """The clipped objective is a lower bound (PPO, section 3): the loss an upper one."""
        terms = clipped_surrogate(f64([[w]]), f64([[advantage]]), 0.8, 1.2)
        unclipped = -w * advantage
        assert terms.per_token.item() >= unclipped - 1e-12
        if not terms.clipped.item():
            assert terms.per_token.item() == pytest.approx(unclipped, abs=1e-12)


class TestKL:
    def test_by_hand(self) -> None:
        # d = ref - log pi = 0.5: e^0.5 - 0.5 - 1; d = 0: 0.
        mask = torch.tensor([[True, True, False]])
        pair = f64([[-1.0, -2.0, -3.0]]), f64([[-0.5, -2.0, 0.0]])
        assert kl("k1", *pair, mask)[0].tolist() == [-0.5, 0.0, 0.0]
        assert kl("k2", *pair, mask)[0].tolist() == [0.125, 0.0, 0.0]
        got = kl("k3", f64([[-1.0, -2.0, -3.0]]), f64([[-0.5, -2.0, 0.0]]), mask)
        assert got[0].tolist() == pytest.approx([math.exp(0.5) - 1.5, 0.0, 0.0])

    @pytest.mark.parametrize("garbage", GARBAGE)
    def test_t3_garbage_off_the_mask_gives_0_and_no_gradient(self, garbage) -> None:
        mask = torch.tensor([[True, False, False]])
        logprobs = f64([[-1.0, garbage, -1.0]], requires_grad=True)
        got = kl("k3", logprobs, f64([[-1.5, -1.0, garbage]]), mask)
        got.sum().backward()
        # d/dlogp of e^d - d - 1 with d = -0.5 is 1 - e^-0.5.
        assert got[0].tolist() == pytest.approx([math.exp(-0.5) - 0.5, 0.0, 0.0])
        assert logprobs.grad[0].tolist() == pytest.approx([1 - math.exp(-0.5), 0.0, 0.0])

    @settings(deadline=None)
    @given(a=st.floats(-20, 0), b=st.floats(-20, 0))
    def test_it_is_not_negative(self, a, b) -> None:
        assert kl("k3", f64([[a]]), f64([[b]]), torch.tensor([[True]])).item() >= 0

    def test_its_mean_under_the_policy_is_the_kl_divergence(self) -> None:
        """Sum over a vocabulary of pi k3 = KL(pi || ref), exactly: E[e^d] = 1."""
        generator = torch.Generator().manual_seed(0)
        logits = torch.randn(2, 9, generator=generator, dtype=torch.float64)
        policy, reference = logits.log_softmax(-1)
        mask = torch.ones(1, 9, dtype=torch.bool)
        estimate = (policy.exp() * kl("k3", policy[None], reference[None], mask)[0]).sum()
        exact = (policy.exp() * (policy - reference)).sum()
        assert estimate.item() == pytest.approx(exact.item(), rel=1e-12)

    def test_as_losses_k2_has_the_gradient_of_the_kl_and_k1_has_none(self) -> None:
        """Exact expectations over a vocabulary of 9, with fixed sampling weights pi."""
        generator = torch.Generator().manual_seed(1)
        logits = torch.randn(2, 9, generator=generator, dtype=torch.float64)
        reference = logits[1].log_softmax(-1)
        mask = torch.ones(1, 9, dtype=torch.bool)

        def gradient(objective) -> torch.Tensor:
            own = logits[0].clone().requires_grad_()
            policy = own.log_softmax(-1)
            objective(policy).backward()
            return own.grad

        def estimate(name: str) -> torch.Tensor:
            return gradient(
                lambda policy: (
                    policy.detach().exp() * kl(name, policy[None], reference[None], mask)[0]
                ).sum()
            )

        exact = gradient(lambda policy: (policy.exp() * (policy - reference)).sum())
        assert torch.allclose(estimate("k2"), exact, atol=1e-12) and exact.abs().max() > 0.05
        assert torch.allclose(estimate("k1"), torch.zeros(9).double(), atol=1e-12)

    def test_t15_minus_infinity_makes_no_nan(self) -> None:
        got = kl("k3", f64([[-math.inf]]), f64([[-1.0]]), torch.tensor([[True]]))
        assert got.isfinite().all()


class TestWeights:
    MASK = torch.tensor([[True, False, True, True], [False] * 4, [False, True, False, False]])

    def test_sequence_mean_by_hand(self) -> None:
        # B = 3, |y| = 3, 0, 1: 1/9 on each of three tokens, nothing, 1/3 on one.
        got = sequence_mean_weights(self.MASK)
        expected = [[1 / 9, 0, 1 / 9, 1 / 9], [0] * 4, [0, 1 / 3, 0, 0]]
        assert got.flatten().tolist() == pytest.approx([x for row in expected for x in row])

    def test_token_mean_by_hand(self) -> None:
        got = token_mean_weights(self.MASK)
        assert torch.equal(got, self.MASK * f64(0.25))

    def test_constant_weights_by_hand(self) -> None:
        # B = 3, L_max = 10.
        assert torch.equal(constant_weights(self.MASK, 10), self.MASK * f64(1 / 30))

    @pytest.mark.parametrize("weights", [sequence_mean_weights, token_mean_weights])
    def test_t15_without_action_tokens_all_weights_are_0(self, weights) -> None:
        assert not weights(torch.zeros(2, 3, dtype=torch.bool)).any()
        assert weights(torch.zeros(0, 3, dtype=torch.bool)).shape == (0, 3)


class TestValueLoss:
    def test_by_hand(self) -> None:
        # Target 1, old value 0, band 0.5. V = 0.4: (0.6)^2 / 2. V = 0.9: the bounded 0.5 is worse,
        # and constant. V = -0.9: the value itself is worse than -0.5.
        values = f64([[0.4, 0.9, -0.9]], requires_grad=True)
        got = value_loss(values, f64([[0.0] * 3]), f64([[1.0] * 3]), 0.5)
        got.sum().backward()
        assert got[0].tolist() == pytest.approx([0.18, 0.125, 1.805])
        assert values.grad[0].tolist() == pytest.approx([-0.6, 0.0, -1.9])
