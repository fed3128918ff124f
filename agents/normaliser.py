"""SORL's normaliser: a step is scaled by the norm of what its clip removed (arXiv:2511.20718).

The gradient of a clipped surrogate is G - C: G that of the surrogate without a clip, C the part at
the clipped tokens. The paper divides the gradient by ||C||_2, so that clipped, off-policy batches
take smaller steps. It says nothing of C = 0, of a bound, or of the order relative to global-norm
clipping. Here the factor is 1 if nothing is clipped, and it scales the optimiser's step (the
default, by docs/stability.md) or the policy's gradient, the latter before that clip.
"""

import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from . import bounds, processes
from .losses import Terms

RULES = ("smooth", "max1", "literal")
TARGETS = ("gradient", "step")
WINDOW = 64  # optimiser steps whose median gradient norm is the scale of `smooth`


@dataclass(frozen=True)
class Normaliser:
    """How ||C|| becomes a factor; the SORL algorithms inherit these fields.

    Attributes:
        rule: "literal" is 1 / (||C|| + delta), as printed: above 1 for ||C|| < 1. "max1" is
            1 / max(1, ||C||). "smooth" is c / (c + ||C||) with c the running median of the
            gradient's norm: never above 1, and 1 / ||C|| up to a constant for large ||C||.
        power: 1, or 2 for the variant of one summary that divides by ||C||^2.
        apply_to: "step": the optimiser's step is scaled. "gradient": the policy's gradient is,
            before the global-norm clip; Adam nearly undoes that, for its second moment follows.
        delta: Keeps "literal" finite.
    """

    rule: str = "smooth"
    power: int = 1
    apply_to: str = "step"
    delta: float = 1e-8

    def __post_init__(self) -> None:
        bounds.one_of(self, "rule", RULES)
        bounds.one_of(self, "power", (1, 2))
        bounds.one_of(self, "apply_to", TARGETS)
        bounds.positive(self, "delta")

    def factor(self, clip_norm: float | None, typical_norm: float) -> float:
        """What the step is scaled by.

        Args:
            clip_norm: ||C||; None if no token was clipped.
            typical_norm: c of "smooth".
        """
        if clip_norm is None:
            return 1.0
        if self.rule == "literal":
            return 1 / (clip_norm**self.power + self.delta)
        if self.rule == "max1":
            return 1 / max(1.0, clip_norm) ** self.power
        total = typical_norm + clip_norm
        return (typical_norm / total) ** self.power if total else 1.0


class TypicalNorm:
    """The running median of the gradient's norm over the last optimiser steps."""

    def __init__(self, norms: Iterable[float] = ()) -> None:
        self.norms = deque(norms, maxlen=WINDOW)

    def observe(self, norm: float) -> float:
        """Take a norm in; the median, that one included."""
        self.norms.append(norm)
        return statistics.median(self.norms)


class RemovedGradient:
    """C, the gradient at the clipped tokens, summed over the micro-batches of an optimiser step."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._sums: list[Tensor] | None = None

    def add(self, terms: Terms, weights: Tensor, action_mask: Tensor) -> None:
        """One backward pass through the clipped tokens; none if there are none.

        Args:
            terms: Of a micro-batch; its graph is kept.
            weights: (B, T).
            action_mask: (B, T) bool.
        """
        clipped = terms.clipped & action_mask
        if terms.unclipped is None or not bool(clipped.any()):
            return
        lost = torch.where(clipped, terms.unclipped * weights, torch.zeros_like(weights)).sum()
        parts = torch.autograd.grad(
            lost, self._parameters, retain_graph=True, materialize_grads=True
        )
        if self._sums is None:
            self._sums = list(parts)
        else:
            for total, part in zip(self._sums, parts, strict=True):
                total += part

    def norm(self) -> float | None:
        """||C||_2 over the micro-batches of all processes, or None if nothing was clipped."""
        own: Sequence[Tensor | None] = self._sums or [None] * len(self._parameters)
        sums = [part for part in processes.sums(own, self._parameters) if part is not None]
        return float(torch.nn.utils.get_total_norm(sums)) if sums else None
