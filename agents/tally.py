"""The numbers of an update, summed over micro-batches and optimiser steps."""

import json
import math
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from . import processes
from .losses import Terms, kl
from .types import Batch

TAIL = 1.0  # nats that a log-probability has moved


class Tally:
    """Sums that become the trainer's part of a line of metrics.jsonl."""

    def __init__(self) -> None:
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._own: defaultdict[str, float] = defaultdict(float)

    def add(self, **values: float) -> None:
        """Add what all processes know, by name."""
        for name, value in values.items():
            self._sums[name] += value

    def add_own(self, **values: float) -> None:
        """Add what this process's micro-batches showed, by name."""
        for name, value in values.items():
            self._own[name] += value

    def collect(self) -> None:
        """Add up what the micro-batches of all processes showed; before anything is read."""
        for own in processes.gather(json.dumps(self._own).encode()):
            self.add(**json.loads(own))
        self._own.clear()

    @torch.no_grad()
    def add_micro_batch(
        self, batch: Batch, logprobs: Tensor, entropy: Tensor, terms: Terms, loss: Tensor
    ) -> None:
        """What one forward pass of the policy showed."""
        mask = batch.action_mask
        clipped = terms.clipped & mask
        moved = (logprobs - batch.old_logprobs).abs()
        self.add_own(
            policy_loss=float(loss.detach()),
            clipped=int(clipped.sum()),
            clipped_turns=_num_turns(batch, clipped),
            tail=int(((moved > TAIL) & mask).sum()),
            kl_old=float(kl("k3", batch.old_logprobs, logprobs, mask).sum()),
            entropy=float(entropy.sum()),
            action_tokens=int(mask.sum()),
            trained_tokens=int(batch.attention_mask.sum()),
        )
        if batch.ref_logprobs is not None:
            self.add_own(kl_ref=float(kl("k3", logprobs, batch.ref_logprobs, mask).sum()))

    def add_step(self, batch: Batch, factor: float) -> None:
        """One optimiser step over a minibatch, the rows without a forward pass included."""
        mask = batch.action_mask
        self.add(
            optimizer_steps=1,
            action_tokens_all=int(mask.sum()),
            turns=_num_turns(batch, mask),
            grad_scale=factor,
        )

    @property
    def kl_ref(self) -> float:
        """k3 to the base model per action token, in nats; NaN where no row was trained."""
        return self._sums["kl_ref"] / (self._sums["action_tokens"] or math.nan)

    def averages(self) -> dict[str, float]:
        """The update's metrics; those of the tokens trained are NaN where no row was."""
        sums = self._sums
        steps = sums["optimizer_steps"]
        tokens = sums["action_tokens"] or math.nan
        optional = [name for name in ("value_loss", "clip_norm") if name in sums]
        return {
            **{n: sums[n] / steps for n in ("policy_loss", "grad_norm", "grad_scale", *optional)},
            "clip_fraction": sums["clipped"] / max(sums["action_tokens_all"], 1),
            "clip_fraction_turns": sums["clipped_turns"] / max(sums["turns"], 1),
            "ratio_tail": sums["tail"] / tokens,
            "kl_old": sums["kl_old"] / tokens,
            "kl_ref": self.kl_ref,
            "entropy": sums["entropy"] / tokens,
            "trained_tokens": sums["trained_tokens"],
            "optimizer_steps": steps,
            "skipped_steps": sums["skipped_steps"],
        }


def count_nonfinite(tensors: Sequence[Tensor]) -> int:
    """How many of the tensors hold NaN or infinity."""
    return int((~torch.stack([tensor.isfinite().all() for tensor in tensors])).sum())


def _num_turns(batch: Batch, tokens: Tensor) -> int:
    """In how many turns at least one of the tokens (B, T) bool stands."""
    rows, columns = tokens.nonzero(as_tuple=True)
    places = torch.stack([rows, batch.turn_ids[rows, columns]], dim=1)
    return len(places.unique(dim=0))
