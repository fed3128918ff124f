"""One rollout batch -> several optimiser steps. The trainer knows no algorithm by name.

Signal (reference log-probabilities, values, advantages), once per batch; then per optimiser step
the token weights, and per micro-batch the loss and its backward pass; then the normaliser's factor,
the global-norm clip and the step.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from retrieval.errors import InputError

from . import processes
from .algorithm import Algorithm, Loss
from .batching import micro_batches
from .critic import Critic
from .host_memory import give_back
from .learning_signal import Signal, trimmed
from .losses import kl, token_mean_weights, value_loss
from .normaliser import RemovedGradient, TypicalNorm
from .penalty import Penalty
from .policy import SearchPolicy
from .shared_prompts import prompts_of
from .tally import Tally, count_nonfinite
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
        penalty: Penalty | None = None,
        critic: Critic | None = None,
    ) -> None:
        """Put the parts together.

        Args:
            policy: What is trained.
            algorithm: How.
            optimizer: Its first parameter group are the policy's weights, its second the critic's.
            options: The shape of an update.
            penalty: KL and entropy terms; None for none.
            critic: Of an actor-critic algorithm.

        Raises:
            InputError: An algorithm with a value function, and no critic to learn it.
        """
        if algorithm.value is not None and critic is None:
            raise InputError("algorithm: it has a value function; give the trainer a critic")
        self.policy = policy
        self.algorithm = algorithm
        self.optimizer = optimizer
        self.options = options
        self.penalty = penalty or Penalty()
        self.critic = critic if algorithm.value is not None else None
        self.kl_coef = self.penalty.kl
        self._typical_norm = TypicalNorm()

    def state(self) -> dict[str, Any]:
        """What later updates depend on besides weights and optimiser; JSON."""
        return {"kl_coef": self.kl_coef, "gradient_norms": list(self._typical_norm.norms)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.kl_coef = state["kl_coef"]
        self._typical_norm = TypicalNorm(state["gradient_norms"])

    def update(
        self, batch: Batch, seed: int, watch: Callable[[Signal], object] | None = None
    ) -> dict[str, float]:
        """Train on one rollout batch.

        Args:
            batch: Whole groups, on any device.
            seed: Of the shuffles into minibatches.
            watch: Is shown what is learnt from, before the first optimiser step.

        Returns:
            Means over optimiser steps: policy_loss, grad_norm (of the policy, before the
            normaliser and the clip), grad_scale (the normaliser's factor), with a normaliser
            clip_norm (||C||), with a critic value_loss. clip_fraction and clip_fraction_turns:
            shares of action tokens, and of turns with a clipped token. Of the action tokens of the
            rows that were trained, NaN where there was none: kl_old, kl_ref (k3) and entropy in
            nats per token, ratio_tail (share that moved by more than 1 nat). trained_tokens,
            optimizer_steps; skipped_steps, those of them that were not taken, because loss or
            gradient were not finite; nonfinite_weights (tensors); kl_coef as used.
        """
        used = self.kl_coef
        with torch.no_grad():
            signal = self._signal(batch.to(self.policy.device))
        if watch is not None:
            watch(signal)
        tally = Tally()
        for rows in self._minibatches(len(batch), seed):
            self._step(signal.select(rows), tally)
        tally.collect()
        give_back()
        processes.copy_from_first(self._weights)
        if math.isfinite(tally.kl_ref):  # else no row was trained, and nothing measured
            self.kl_coef = self.penalty.steered(used, tally.kl_ref, len(batch))
        broken = count_nonfinite(self._weights)
        return tally.averages() | {"kl_coef": used, "nonfinite_weights": broken}

    @property
    def _weights(self) -> list[Tensor]:
        """Of the policy and the critic."""
        return [weight for group in self.optimizer.param_groups for weight in group["params"]]

    @torch.no_grad()
    def logprobs(self, batch: Batch) -> Tensor:
        """(B, T) of the action tokens under the present weights, at the sampling temperature."""
        return self._in_parts(batch, self._logprobs)

    def _signal(self, batch: Batch) -> Signal:
        if self.penalty.kl:
            with self.policy.reference():
                reference = self._in_parts(batch, self._logprobs)
            batch = replace(batch, ref_logprobs=reference)
            if self.penalty.place == "reward":
                cost = kl(self.penalty.estimator, batch.old_logprobs, reference, batch.action_mask)
                batch = replace(batch, penalties=self.kl_coef * cost)
        value = self.algorithm.value
        if value is None or self.critic is None:
            return Signal(batch, self.algorithm.advantage(batch), None)
        batch = replace(batch, values=self._in_parts(batch, self.critic.values))
        return Signal(batch, self.algorithm.advantage(batch), value.targets(batch))

    def _minibatches(self, rows: int, seed: int) -> Iterator[Tensor]:
        random = torch.Generator().manual_seed(seed)
        for _ in range(self.options.epochs):
            order = torch.randperm(rows, generator=random)
            # Fewer rows than minibatches: some would be empty, and an empty step trains nothing.
            yield from order.tensor_split(min(self.options.minibatches, rows))

    def _step(self, signal: Signal, tally: Tally) -> None:
        """One optimiser step; its gradient is the same for any split into micro-batches."""
        self.optimizer.zero_grad(set_to_none=True)
        rows = self._rows_with_gradient(signal)
        factor = self._policy_gradient(signal, rows, tally) if len(rows) else 1.0
        if self.critic is not None:
            self._value_gradient(signal, tally)
        tally.add_step(signal.batch, factor)
        if len(rows) or self.critic is not None:
            self._apply(factor, tally)

    def _policy_gradient(self, signal: Signal, rows: Tensor, tally: Tally) -> float:
        """Fill the gradients of the policy's weights; the normaliser's factor for the step."""
        weights = self.algorithm.weights(signal.batch.action_mask)
        parameters = self.policy.trainable_parameters()
        removed = RemovedGradient(parameters)
        loss = self._loss(signal)
        for group in self._micro_batches(signal.batch, rows):
            part = signal.select(group)
            self._accumulate(loss, part, trimmed(weights[group], part.batch), removed, tally)
        gradients = processes.sum_gradients(parameters)
        norm = float(torch.nn.utils.get_total_norm(gradients))
        tally.add(grad_norm=norm)
        # One NaN in the running median would stay there.
        if self.algorithm.normaliser is None or not math.isfinite(norm):
            return 1.0
        clip_norm = removed.norm()
        tally.add(clip_norm=clip_norm or 0.0)
        return self.algorithm.normaliser.factor(clip_norm, self._typical_norm.observe(norm))

    def _accumulate(
        self, loss: Loss, signal: Signal, weights: Tensor, removed: RemovedGradient, tally: Tally
    ) -> None:
        batch, mask, penalty = signal.batch, signal.batch.action_mask, self.penalty
        logprobs, entropy = self.policy.logprobs(
            batch.input_ids, mask, self.options.temperature, bool(penalty.entropy)
        )
        terms = loss(logprobs, batch, signal.advantages)
        if batch.corrections is not None:
            terms = terms.times(batch.corrections)
        if self.algorithm.normaliser is not None:
            removed.add(terms, weights, mask)
        per_token = terms.per_token
        if batch.ref_logprobs is not None and penalty.place == "loss":
            reference = batch.ref_logprobs
            per_token = per_token + self.kl_coef * kl(penalty.estimator, logprobs, reference, mask)
        if penalty.entropy:
            per_token = per_token - penalty.entropy * entropy
        # where, not a product: 0 * inf off the mask would be NaN.
        total = torch.where(mask, per_token * weights, torch.zeros_like(per_token)).sum()
        total.backward()
        tally.add_micro_batch(batch, logprobs, entropy, terms, total)

    def _value_gradient(self, signal: Signal, tally: Tally) -> None:
        """Fill the gradients of the critic's weights: the token mean of the clipped value loss."""
        assert self.critic is not None and self.algorithm.value is not None
        weights = token_mean_weights(signal.batch.action_mask)
        with_actions = signal.batch.action_mask.any(1).nonzero()[:, 0]
        for rows in self._micro_batches(signal.batch, with_actions):
            part = signal.select(rows)
            assert part.targets is not None and part.batch.values is not None
            values = self.critic.values(part.batch)
            loss = value_loss(values, part.batch.values, part.targets, self.algorithm.value.clip)
            mask = part.batch.action_mask
            scaled = loss * trimmed(weights[rows], part.batch)
            total = torch.where(mask, scaled, torch.zeros_like(scaled)).sum()
            total.backward()
            tally.add_own(value_loss=float(total.detach()))
        processes.sum_gradients(self.critic.parameters())

    def _apply(self, factor: float, tally: Tally) -> None:
        """Scale, clip each group to the global norm, and step; not if a gradient is not finite."""
        normaliser = self.algorithm.normaliser
        policy_group = self.optimizer.param_groups[0]
        gradients = [weight.grad for weight in self._weights if weight.grad is not None]
        if not torch.nn.utils.get_total_norm(gradients).isfinite():
            tally.add(skipped_steps=1)
            return
        if normaliser is not None and normaliser.apply_to == "gradient":
            for parameter in policy_group["params"]:
                if parameter.grad is not None:
                    parameter.grad *= factor
            factor = 1.0
        if self.options.max_grad_norm:
            for group in self.optimizer.param_groups:
                torch.nn.utils.clip_grad_norm_(group["params"], self.options.max_grad_norm)
        lr = policy_group["lr"]
        policy_group["lr"] = lr * factor
        self.optimizer.step()
        policy_group["lr"] = lr

    def _loss(self, signal: Signal) -> Loss:
        if self.algorithm.adapt is None:
            return self.algorithm.loss
        with torch.no_grad():
            logprobs = self._in_parts(signal.batch, self._logprobs)
            return self.algorithm.adapt(logprobs, signal.batch, signal.advantages)

    def _rows_with_gradient(self, signal: Signal) -> Tensor:
        """Rows whose forward pass the policy's gradient needs: (N,) indices."""
        mask = signal.batch.action_mask
        useful = mask.any(1)
        if self.algorithm.zero_advantage_is_inert and not self.penalty.shapes_loss:
            useful &= ((signal.advantages != 0) & mask).any(1)
        return useful.nonzero()[:, 0]

    def _micro_batches(self, batch: Batch, rows: Tensor) -> Iterator[Tensor]:
        """This process's rows, in micro-batches."""
        rows = rows.sort().values  # as they were played: groups whole, most of them here
        lengths = batch.lengths[rows].tolist()
        mine = processes.stretch(lengths)
        rows, lengths = rows[mine], lengths[mine]
        prompts = prompts_of(batch.input_ids[rows], batch.openings[rows])
        for group in micro_batches(lengths, prompts, self.options.microbatch_tokens):
            yield rows[torch.tensor(group, device=rows.device)]

    def _logprobs(self, batch: Batch) -> Tensor:
        temperature = self.options.temperature
        return self.policy.logprobs(batch.input_ids, batch.action_mask, temperature)[0]

    def _in_parts(self, batch: Batch, function: Callable[[Batch], Tensor]) -> Tensor:
        """A function of trajectories, micro-batch by micro-batch: (B, T) float32."""
        result = torch.zeros(batch.input_ids.shape, device=self.policy.device)
        for rows in self._micro_batches(batch, torch.arange(len(batch), device=result.device)):
            values = function(batch.select(rows))
            result[rows, : values.shape[1]] = values
        processes.add_up(result)  # a row is 0 in every process but the one that computed it
        return result
