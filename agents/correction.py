"""Importance correction for a sampler that computes another function than the policy.

B trajectories, T tokens. An engine with arithmetic of its own (other kernels, another precision)
draws from mu, which is near the policy pi of the same weights and not equal to it. A policy
gradient taken as if pi had drawn is biased; weighting each token's loss by pi / mu takes that bias
away, and a cap bounds the variance: truncated importance sampling (Ionides 2008, "Truncated
Importance Sampling", Eq. 3), per token. The algorithm's own ratio then starts at exactly 1.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .types import Batch


@dataclass(frozen=True, slots=True)
class Corrected:
    """A batch made fit for training, and how far the sampler was off.

    Attributes:
        batch: `old_logprobs` are the policy's; `corrections` is set.
        metrics: sampler_mismatch, the mean |log pi - log mu| over action tokens in nats, and
            importance_capped, the share of action tokens whose weight the cap cut.
    """

    batch: Batch
    metrics: dict[str, float]


def correct(batch: Batch, logprobs: Tensor, cap: float) -> Corrected:
    """Replace the sampler's log-probabilities by the policy's, and weight tokens by their ratio.

    Args:
        batch: As sampled: `old_logprobs` are the sampler's.
        logprobs: (B, T) of the same tokens under the policy, before any optimiser step.
        cap: The largest weight.
    """
    mask = batch.action_mask
    gap = torch.where(mask, logprobs - batch.old_logprobs, 0.0)
    ratios = gap.exp()
    weights = torch.where(mask, ratios.clamp(max=cap), 0.0)
    tokens = max(int(mask.sum()), 1)
    metrics = {
        "sampler_mismatch": float(gap.abs().sum()) / tokens,
        "importance_capped": int((ratios > cap).sum()) / tokens,
    }
    return Corrected(replace(batch, old_logprobs=logprobs, corrections=weights), metrics)
