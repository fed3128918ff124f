"""One token of a vocabulary, drawn."""

import torch
from torch import Tensor

from .engine import DivergedError

BLOCK = 256  # tokens of the vocabulary whose probabilities are summed up first


def inverse_cdf(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """The first token whose cumulative probability exceeds a uniform draw.

    In two steps, a block of the vocabulary and a token in it, so that only R x (V / block + block)
    numbers are summed up in float64 and not R x V.

    Args:
        probabilities: (R, V) float, each row summing to 1 but for rounding.
        uniform: (R,) float64 in [0, 1).

    Returns:
        (R,) int64; never a token of probability 0.

    Raises:
        DivergedError: A probability that is not a number.
    """
    blocks = torch.nn.functional.pad(probabilities, (0, -probabilities.shape[1] % BLOCK))
    blocks = blocks.unflatten(1, (-1, BLOCK))
    ends = blocks.sum(-1).double().cumsum(-1)
    if not bool(ends[:, -1].isfinite().all()):
        raise DivergedError()
    target = _below(uniform[:, None] * ends[:, -1:], ends[:, -1:])
    block = torch.searchsorted(ends, target, right=True)
    inside = blocks.take_along_dim(block[:, :, None], dim=1)[:, 0].double().cumsum(-1)
    start = torch.where(block > 0, ends.gather(1, (block - 1).clamp(min=0)), 0.0)
    # The ends are sums of float32 sums: what is left may round to more than this block holds.
    token = torch.searchsorted(inside, _below(target - start, inside[:, -1:]), right=True)
    return (block * BLOCK + token)[:, 0]


def _below(values: Tensor, limit: Tensor) -> Tensor:
    """The values, or the number just below the limit where they reach it."""
    return torch.minimum(values, limit.nextafter(torch.zeros_like(limit)))
