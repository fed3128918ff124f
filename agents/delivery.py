"""Whether a sampler outside this process has the policy's adapter: T6 and T7 of the lessons.

The policy reads sampled turns again. If the sampler runs the same weights, both give the same
log-probabilities but for rounding. If it lost the adapter, its numbers are nearer to the base
model's than to the policy's, however small the adapter is; any other difference in weights or
settings shows as a gap that rounding does not explain.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .engine import EngineError
from .policy import SearchPolicy


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Largest |log ratio| of policy to sampler that rounding explains, in nats.

    Attributes:
        mean: Over sampled tokens.
        largest: Of any token.
    """

    mean: float
    largest: float


# Measured between vLLM 0.32 (CPU) and this policy on SmolLM2-135M: 6e-6 and 3e-5 in float32, 0.05
# and 0.3 in bfloat16 (docs/training.md). Float32 leaves room for a GPU's TF32 products.
TOLERANCES = {
    torch.float32: Tolerance(mean=1e-3, largest=2e-2),
    torch.bfloat16: Tolerance(mean=0.25, largest=3.0),
}


@dataclass(frozen=True, slots=True)
class Spoken:
    """One episode so far, whose last turn was sampled just now.

    Attributes:
        context: Token ids before that turn.
        ids: The turn's.
        logprobs: As the sampler gave them.
    """

    context: Sequence[int]
    ids: Sequence[int]
    logprobs: Sequence[float]


def check_delivery(policy: SearchPolicy, turns: Sequence[Spoken], temperature: float) -> None:
    """Compare sampled turns with the policy's own log-probabilities.

    Args:
        policy: Whose adapter the sampler should have.
        turns: At least one.
        temperature: Of sampling; 0 stands for 1, as in `Sample.logprobs`.

    Raises:
        EngineError: They differ by more than rounding; it names the likely cause.
    """
    gaps = _gaps(policy, turns, temperature or 1.0)
    with policy.reference():
        from_base = _gaps(policy, turns, temperature or 1.0)
    mean, largest = float(gaps.mean()), float(gaps.max())
    told = f"mean |log ratio| {mean:.2g}, largest {largest:.2g} over {len(gaps)} tokens"
    if float(from_base.mean()) < mean / 2:
        raise EngineError(
            f"the adapter did not reach the sampler, which gives the base model's "
            f"probabilities ({told}); check that the server reads engine.adapter_dir and was "
            "started with --enable-lora"
        )
    tolerance = TOLERANCES[policy.dtype]
    # Written so that a NaN fails too.
    if not (mean <= tolerance.mean and largest <= tolerance.largest):
        raise EngineError(
            f"the sampler's probabilities are not the policy's ({told}; rounding explains "
            f"{tolerance.mean:g} and {tolerance.largest:g}): it runs other base weights, another "
            "dtype or an older adapter, or without --logprobs-mode processed_logprobs"
        )


@torch.no_grad()
def _gaps(policy: SearchPolicy, turns: Sequence[Spoken], temperature: float) -> torch.Tensor:
    """|log pi - log mu| of the turns' tokens: (N,) nats."""
    shape = (len(turns), max(len(turn.context) + len(turn.ids) for turn in turns))
    ids = torch.full(shape, policy.pad_id, dtype=torch.int64)
    mask = torch.zeros(shape, dtype=torch.bool)
    sampled = torch.zeros(shape)
    for row, turn in enumerate(turns):
        start, end = len(turn.context), len(turn.context) + len(turn.ids)
        ids[row, :end] = torch.tensor([*turn.context, *turn.ids])
        mask[row, start:end] = True
        sampled[row, start:end] = torch.tensor(turn.logprobs)
    mask = mask.to(policy.device)
    own, _ = policy.logprobs(ids.to(policy.device), mask, temperature)
    return (own - sampled.to(policy.device))[mask].abs()
