"""SAPO's gate."""

import pytest
import torch

from agents.algorithms import sapo
from tests.agents.builds import random_batch


@pytest.mark.parametrize("tau", [0.3, 1.0, 4.0])
def test_p11_the_slope_is_1_at_ratio_1_and_falls_on_both_sides(tau) -> None:
    batch = random_batch(0)
    algorithm = sapo.build(sapo.Config(tau_pos=tau, tau_neg=tau))
    slopes = []
    for shift in (-0.7, 0.0, 0.7):
        logprobs = (batch.old_logprobs + shift * batch.action_mask).requires_grad_()
        ones = batch.action_mask.double()
        (slope,) = torch.autograd.grad(
            algorithm.loss(logprobs, batch, ones).per_token.sum(), logprobs
        )
        # By the chain rule d/d log pi = w f'(w).
        slopes.append((-slope / torch.exp(torch.tensor(shift).double()))[batch.action_mask])
    low, middle, high = slopes
    assert torch.allclose(middle, torch.ones_like(middle), rtol=1e-12, atol=0)
    assert (low < 1).all() and (high < 1).all()
