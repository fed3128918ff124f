"""One rollout batch -> several optimiser steps. The trainer knows no algorithm by name.

Signal (advantages, reference log-probabilities), once per batch; then per optimiser step the token
weights, and per micro-batch the loss and its backward pass; then the global-norm clip and the step.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .algorithm import Algorithm
from .batching import micro_batches
from .losses import kl_k3
from .policy import SearchPolicy
from .types import Batch


@dataclass(frozen=True, slots=True)
class StepOptions:
    """How a batch becomes optimiser steps.

    Attributes:
        epochs: Passes over each rollout batch.
        minibatches: Optimiser steps per pass; rows are shuffled between passes.
        microbatch_tokens: Tokens, padding included, in one forward pass: bounds memory, changes
            nothing else.
        max_grad_norm: Global-norm clip; 0 for none.
        temperature: That of sampling.
    """

    epochs: int
    minibatches: int
    microbatch_tokens: int
    max_grad_norm: float
    temperature: float


class Trainer:
    """Applies an algorithm to a policy."""

    def __init__(
        self,
        policy: SearchPolicy,
        algorithm: Algorithm,
        optimizer: torch.optim.Optimizer,
        options: StepOptions,
    ) -> None:
        self.policy = policy
        self.algorithm = algorithm
        self.optimizer = optimizer
        self.options = options

    def update(self, batch: Batch, seed: int) -> dict[str, float]:
        """Train on one rollout batch.

        Args:
            batch: Whole groups, on any device.
            seed: Of the shuffles into minibatches.

        Returns:
            policy_loss, clip_fraction (share of action tokens), grad_norm (before the clip, mean
            over steps), trained_tokens, optimizer_steps; kl_old, kl_ref (k3) and entropy in nats
            per action token of the rows that were trained, NaN where there was none.
        """
        batch = batch.to(self.policy.device)
        if self.algorithm.kl_coef:
            batch = batch.with_reference(self._reference_logprobs(batch))
        with torch.no_grad():
            advantages = self.algorithm.advantage(batch)
        sums: defaultdict[str, float] = defaultdict(float)
        for rows in self._minibatches(len(batch), seed):
            part = batch.select(rows)
            self._step(part, _trimmed(advantages[rows], part), sums)
        return _averages(sums)

    def _minibatches(self, rows: int, seed: int) -> Iterator[Tensor]:
        random = torch.Generator().manual_seed(seed)
        for _ in range(self.options.epochs):
            order = torch.randperm(rows, generator=random)
            # Fewer rows than minibatches: some would be empty, and an empty step trains nothing.
            yield from order.tensor_split(min(self.options.minibatches, rows))

    def _step(self, batch: Batch, advantages: Tensor, sums: dict[str, float]) -> None:
        """One optimiser step; its gradient is the same for any split into micro-batches."""
        weights = self.algorithm.weights(batch.action_mask)
        self.optimizer.zero_grad(set_to_none=True)
        rows = self._rows_with_gradient(batch, advantages)
        lengths = batch.lengths[rows].tolist()
        for group in micro_batches(lengths, self.options.microbatch_tokens):
            picked = rows[torch.tensor(group, device=rows.device)]
            part = batch.select(picked)
            self._accumulate(
                part, _trimmed(advantages[picked], part), _trimmed(weights[picked], part), sums
            )
        sums["action_tokens_all"] += int(batch.action_mask.sum())
        sums["optimizer_steps"] += 1
        if len(rows):
            limit = self.options.max_grad_norm or torch.inf
            norm = torch.nn.utils.clip_grad_norm_(self.policy.trainable_parameters(), limit)
            sums["grad_norm"] += float(norm)
            self.optimizer.step()

    def _rows_with_gradient(self, batch: Batch, advantages: Tensor) -> Tensor:
        """Rows worth a forward pass: (N,) indices."""
        useful = batch.action_mask.any(1)
        if self.algorithm.zero_advantage_is_inert and not self.algorithm.kl_coef:
            useful &= ((advantages != 0) & batch.action_mask).any(1)
        return useful.nonzero()[:, 0]

    def _accumulate(
        self, batch: Batch, advantages: Tensor, weights: Tensor, sums: dict[str, float]
    ) -> None:
        mask = batch.action_mask
        logprobs, entropy = self.policy.logprobs(batch.input_ids, mask, self.options.temperature)
        terms = self.algorithm.loss(logprobs, batch, advantages)
        per_token = terms.per_token
        if batch.ref_logprobs is not None:
            kl_ref = kl_k3(logprobs, batch.ref_logprobs, mask)
            per_token = per_token + self.algorithm.kl_coef * kl_ref
            sums["kl_ref"] += float(kl_ref.detach().sum())
        # where, not a product: 0 * inf off the mask would be NaN.
        loss = torch.where(mask, per_token * weights, torch.zeros_like(per_token)).sum()
        loss.backward()
        with torch.no_grad():
            sums["policy_loss"] += float(loss)
            sums["clipped"] += int((terms.clipped & mask).sum())
            sums["kl_old"] += float(kl_k3(batch.old_logprobs, logprobs, mask).sum())
            sums["entropy"] += float(entropy.sum())
            sums["action_tokens"] += int(mask.sum())
            sums["trained_tokens"] += int(batch.attention_mask.sum())

    @torch.no_grad()
    def _reference_logprobs(self, batch: Batch) -> Tensor:
        """(B, T) under the base model."""
        result = torch.zeros_like(batch.old_logprobs)
        with self.policy.reference():
            for group in micro_batches(batch.lengths.tolist(), self.options.microbatch_tokens):
                part = batch.select(torch.tensor(group, device=self.policy.device))
                logprobs, _ = self.policy.logprobs(
                    part.input_ids, part.action_mask, self.options.temperature
                )
                result[group, : logprobs.shape[1]] = logprobs
        return result


def _trimmed(values: Tensor, part: Batch) -> Tensor:
    """A (B, T) tensor cut to the width of the selection it belongs to."""
    return values[:, : part.input_ids.shape[1]]


def _averages(sums: dict[str, float]) -> dict[str, float]:
    steps = sums["optimizer_steps"]
    tokens = sums["action_tokens"] or math.nan
    return {
        "policy_loss": sums["policy_loss"] / steps,
        "clip_fraction": sums["clipped"] / max(sums["action_tokens_all"], 1),
        "kl_old": sums["kl_old"] / tokens,
        "kl_ref": sums["kl_ref"] / tokens,
        "entropy": sums["entropy"] / tokens,
        "grad_norm": sums["grad_norm"] / steps,
        "trained_tokens": sums["trained_tokens"],
        "optimizer_steps": steps,
    }
