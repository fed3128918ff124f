"""Some episodes of a step, token by token, with the numbers that trained them: tokens.jsonl."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .learning_signal import Signal
from .policy import SearchPolicy
from .seeding import Draw, derive
from .trainer import Trainer
from .types import Trajectory


class TokenTranscripts:
    """Watches one update, and afterwards tells what became of a few of its rows."""

    def __init__(self, rows: Sequence[int]) -> None:
        """Choose what to watch.

        Args:
            rows: Of the rollout batch.
        """
        self._rows = torch.tensor(rows, dtype=torch.int64)
        self._signal: Signal | None = None

    def watch(self, signal: Signal) -> None:
        """Keep the rows' part of the signal; for `Trainer.update`."""
        if len(self._rows):
            self._signal = signal.select(self._rows.to(signal.advantages.device))

    def lines(self, trainer: Trainer) -> list[dict[str, Any]]:
        """One object per row, in order, once the update is over.

        Returns:
            Of every token: ids, pieces (their text) and turn_ids (-1 where the agent did not write
            it); of every action token, in order: old_logprobs (nats, at sampling), log_ratios (by
            how much the update has raised them) and advantages. The numbers are float32, written
            so that they read back equal.
        """
        signal = self._signal
        if signal is None:
            return []
        batch = signal.batch
        numbers = {
            "old_logprobs": batch.old_logprobs,
            "log_ratios": trainer.logprobs(batch) - batch.old_logprobs,
            "advantages": signal.advantages,
        }
        made = []
        for row, length in enumerate(batch.lengths.tolist()):
            ids: list[int] = batch.input_ids[row, :length].tolist()
            mask = batch.action_mask[row]
            made.append(
                {
                    "ids": ids,
                    "pieces": pieces(trainer.policy, ids),
                    "turn_ids": batch.turn_ids[row, :length].tolist(),
                    **{name: _shortest(values[row][mask]) for name, values in numbers.items()},
                }
            )
        return made


def choose(total: int, count: int, seed: int, step: int) -> list[int]:
    """Which rows of a step's batch are kept: `count` of `total`, or all if there are fewer."""
    random = np.random.default_rng(derive(seed, Draw.TRANSCRIPTS, step))
    return sorted(random.choice(total, size=min(count, total), replace=False).tolist())


def place(trajectory: Trajectory, played: Sequence[Trajectory]) -> int:
    """Which of a step's lines in rollouts.jsonl is this very trajectory's, counted from 0."""
    return next(index for index, other in enumerate(played) if other is trajectory)


def pieces(policy: SearchPolicy, ids: Sequence[int]) -> list[str]:
    """The text of each token; joined, the text of all, but for bytes that form no letter.

    A token that ends inside a letter has "", and the one that completes the letter has it whole.
    """
    texts: list[str] = []
    start = 0
    for end in range(1, len(ids) + 1):
        text = policy.tokenizer.decode(list(ids[start:end]), skip_special_tokens=False)
        # A letter has at most 4 bytes: after 4 tokens, nothing will complete it.
        whole = not text.endswith("\ufffd") or end - start == 4 or end == len(ids)
        texts.append(text if whole else "")
        start = end if whole else start
    return texts


def _shortest(values: Tensor) -> list[float | None]:
    """Float32 numbers in the fewest digits that tell them apart; None for what JSON has not."""
    known = values.float().cpu().numpy()
    return [float(str(value)) if np.isfinite(value) else None for value in known]
