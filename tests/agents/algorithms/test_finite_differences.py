"""Every objective's gradient on a small softmax policy, against central differences in float64."""

from dataclasses import replace

import pytest
import torch

from agents.types import Batch
from retrieval import plugins
from tests.agents.builds import random_batch
from tests.contracts.test_algorithms import step_loss, total

STATES, ACTIONS, STEP = 5, 4, 1e-6
# Its weight is behind a stop-gradient: by design not the derivative of its value.
STOPPED = {"cispo"}


def logprobs_of(theta: torch.Tensor, batch: Batch) -> torch.Tensor:
    """log softmax(theta[state])[action]; the state is the column's, the action the token's."""
    states = torch.arange(batch.input_ids.shape[1]) % STATES
    return theta.log_softmax(-1)[states, batch.input_ids % ACTIONS]


@pytest.mark.parametrize("name", sorted(set(plugins.names("agents.algorithms")) - STOPPED))
def test_the_gradient_is_that_of_central_differences(name) -> None:
    module = plugins.load("agents.algorithms", name)
    algorithm, batch = module.build(module.Config()), random_batch(7)
    generator = torch.Generator().manual_seed(7)
    old, theta = torch.randn(2, STATES, ACTIONS, generator=generator, dtype=torch.float64)
    # Near enough that some tokens are clipped and others are not.
    theta = old + 0.2 * theta
    batch = replace(batch, old_logprobs=logprobs_of(old, batch))
    advantages = algorithm.advantage(batch)
    loss_of_step = step_loss(algorithm, batch, logprobs_of(theta, batch), advantages)

    def objective(theta: torch.Tensor) -> torch.Tensor:
        terms = loss_of_step(logprobs_of(theta, batch), batch, advantages)
        return total(terms.per_token, algorithm, batch)

    (gradient,) = torch.autograd.grad(objective(theta.requires_grad_()), theta)
    differences = torch.zeros_like(gradient)
    for index in range(gradient.numel()):
        shift = torch.zeros(STATES * ACTIONS, dtype=torch.float64)
        shift[index] = STEP
        shift = shift.view(STATES, ACTIONS)
        with torch.no_grad():
            change = objective(theta + shift) - objective(theta - shift)
        differences.view(-1)[index] = change / (2 * STEP)
    assert gradient.abs().max() > 1e-4
    assert torch.allclose(gradient, differences, rtol=1e-6, atol=1e-8)
