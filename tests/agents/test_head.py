"""Log-probabilities and entropies, against autograd through the full softmax in float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from agents.head import chosen_logprobs, recomputed_logprobs

N, H, V = 40, 16, 300


def parts(bias: bool, dtype: torch.dtype = torch.float32) -> tuple[Tensor, torch.nn.Linear, Tensor]:
    random = torch.Generator().manual_seed(0)
    head = torch.nn.Linear(H, V, bias=bias).requires_grad_(False)
    for parameter in head.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=random))
    states = torch.randn(N, H, generator=random).to(dtype).requires_grad_(True)
    return states, head.to(dtype), torch.randint(V, (N,), generator=random)


def autograd(
    states: Tensor, head: torch.nn.Linear, targets: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """(N,) log-probabilities and entropies in float64."""
    exact = torch.nn.Linear(H, V, bias=head.bias is not None).double()
    exact.load_state_dict(head.state_dict())
    every = (exact(states.double()) / temperature).log_softmax(-1)
    return every.gather(1, targets[:, None])[:, 0], -(every.exp() * every).sum(-1)


def recomputed(
    states: Tensor, head: torch.nn.Linear, targets: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    return recomputed_logprobs(states, head, targets, temperature, entropy_gradient=False)


@pytest.mark.parametrize("function", [chosen_logprobs, recomputed])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
def test_values_and_gradients_are_those_of_the_full_softmax(
    function: Callable[..., tuple[Tensor, Tensor]], bias: bool, temperature: float
) -> None:
    states, head, targets = parts(bias)
    weights = torch.randn(N, generator=torch.Generator().manual_seed(1))
    chosen, entropy = function(states, head, targets, temperature)
    (made,) = torch.autograd.grad((chosen * weights).sum(), states)
    expected, expected_entropy = autograd(states, head, targets, temperature)
    (wanted,) = torch.autograd.grad((expected * weights).sum(), states)
    assert torch.allclose(chosen.double(), expected, atol=1e-5)
    assert torch.allclose(entropy.double(), expected_entropy, atol=1e-5)
    assert (made - wanted).abs().max() < 1e-5 * wanted.abs().max()
    assert not entropy.requires_grad and not head.weight.requires_grad


def test_the_gradient_of_the_entropy_is_that_of_the_full_softmax() -> None:
    states, head, targets = parts(True)
    _, entropy = recomputed_logprobs(states, head, targets, 0.6, entropy_gradient=True)
    (made,) = torch.autograd.grad(entropy.sum(), states)
    (wanted,) = torch.autograd.grad(autograd(states, head, targets, 0.6)[1].sum(), states)
    assert (made - wanted).abs().max() < 1e-5 * wanted.abs().max()


def test_a_certain_token_has_no_gradient_and_an_uncertain_one_moves_to_its_own_row() -> None:
    """By hand, W = (1, -1), T = 1: p_0 = sigmoid(2 h), and d log p_0 / d h = 2 (1 - p_0)."""
    head = torch.nn.Linear(1, 2, bias=False).requires_grad_(False)
    head.weight.copy_(torch.tensor([[1.0], [-1.0]]))
    states = torch.tensor([[0.0], [40.0]], requires_grad=True)
    chosen, entropy = chosen_logprobs(states, head, torch.tensor([0, 0]), 1.0)
    chosen.sum().backward()
    assert chosen.tolist() == pytest.approx([-0.6931472, 0.0])
    assert entropy.tolist() == pytest.approx([0.6931472, 0.0])
    assert states.grad is not None
    assert states.grad[:, 0].tolist() == [1.0, 0.0]


def test_bfloat16_states_get_a_bfloat16_gradient_as_near_as_autograds() -> None:
    states, head, targets = parts(False, torch.bfloat16)
    chosen, _ = chosen_logprobs(states, head, targets, 1.0)
    (made,) = torch.autograd.grad(chosen.sum(), states)
    plain = head(states).float().log_softmax(-1).gather(1, targets[:, None])
    (other,) = torch.autograd.grad(plain.sum(), states)
    expected, _ = autograd(states, head, targets, 1.0)
    (wanted,) = torch.autograd.grad(expected.sum(), states)
    assert chosen.dtype == torch.float32 and made.dtype == torch.bfloat16
    errors = [float((g - wanted).float().norm() / wanted.float().norm()) for g in (made, other)]
    assert errors[0] < max(1.2 * errors[1], 0.01)


def test_without_a_gradient_nothing_is_kept() -> None:
    states, head, targets = parts(False)
    with torch.no_grad():
        chosen, _ = chosen_logprobs(states, head, targets, 1.0)
    assert not chosen.requires_grad
    kept: list[torch.Size] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        chosen_logprobs(states, head, targets, 1.0)
    assert kept == [(N, H)]


def test_a_second_derivative_is_refused() -> None:
    states, head, targets = parts(False)
    weights = torch.ones(N, requires_grad=True)
    chosen, _ = chosen_logprobs(states, head, targets, 1.0)
    (first,) = torch.autograd.grad((chosen * weights).sum(), states, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
