"""Log-probabilities of chosen tokens, and entropies; no logits stay until the backward pass.

N tokens, H hidden width, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def chosen_logprobs(
    states: Tensor, head: torch.nn.Linear, targets: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Under an output layer that is not trained: the gradient is made on the way forward.

    Args:
        states: (N, H).
        head: The output layer; its weights get no gradient.
        targets: (N,) int64.
        temperature: Divides the logits; > 0.

    Returns:
        (N,) log-probabilities in nats, differentiable once, and (N,) entropies in nats, which are
        not; both float32.
    """
    chosen, entropy = _Chosen.apply(states, head.weight, head.bias, targets, temperature)
    return chosen, entropy


def recomputed_logprobs(
    states: Tensor,
    head: torch.nn.Module,
    targets: Tensor,
    temperature: float,
    entropy_gradient: bool,
) -> tuple[Tensor, Tensor]:
    """Under any output layer, whose logits are computed again in the backward pass.

    Args:
        states: (N, H).
        head: (N, H) -> (N, V).
        targets: (N,) int64.
        temperature: Divides the logits; > 0.
        entropy_gradient: Whether the entropies are differentiable too.

    Returns:
        As `chosen_logprobs`.
    """

    def compute(states: Tensor) -> tuple[Tensor, Tensor]:
        every = (head(states).float() / temperature).log_softmax(-1)
        with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
            entropy = -(every.exp() * every).sum(-1)
        return every.gather(1, targets[:, None])[:, 0], entropy

    chosen, entropy = checkpoint(compute, states, use_reentrant=False)
    return chosen, entropy


class _Chosen(torch.autograd.Function):
    """With z = W h / T, d log p(y) / d h = (W_y - sum_v p_v W_v) / T.

    What comes back is one number per token, so this vector can be made while p is at hand: (N, H)
    is kept, and neither are the logits (N, V) kept nor are they computed again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        temperature: float,
    ) -> tuple[Tensor, Tensor]:
        logits = torch.nn.functional.linear(states, weight, bias).float()
        if temperature != 1:
            logits /= temperature
        every = logits.log_softmax(-1)
        del logits
        p = every.exp()
        # A product of matrices: no third (N, V) tensor, and faster than a sum of products.
        entropy = -torch.bmm(p[:, None], every[:, :, None])[:, 0, 0]
        chosen = every.gather(1, targets[:, None])[:, 0]
        if ctx.needs_input_grad[0]:
            del every
            mean = (p.to(weight.dtype) @ weight).float()
            ctx.save_for_backward((weight[targets].float() - mean) / temperature)
            ctx.dtype = states.dtype
        ctx.mark_non_differentiable(entropy)
        return chosen, entropy

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        (direction,) = ctx.saved_tensors
        return (gradient[:, None] * direction).to(ctx.dtype), None, None, None, None
