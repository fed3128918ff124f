"""The guard's eyes: which numbers of a run say that it is collapsing. No tensor, no file.

What follows an alarm is `rollback.py`'s.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from . import bounds

# Lines of metrics.jsonl, the oldest first; None and NaN are numbers that were not measured.
History = Sequence[Mapping[str, float | None]]


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """When training goes back to a good checkpoint, and how it goes on from there.

    The thresholds are those of numbers in metrics.jsonl; null watches nothing.

    Attributes:
        enabled: Whether anything is watched. Without it too, a gradient that is not finite is not
            applied.
        skipped_steps: Optimiser steps of one batch that may be skipped, because loss or gradient
            were NaN or infinite.
        ratio_tail: The largest share of a batch's trained tokens whose log-probability has moved by
            more than 1 nat since they were sampled.
        kl_old: The largest KL to the policy that sampled, over a batch, in nats per token.
        entropy_low: The least entropy in nats per token, mean of `window` steps.
        entropy_high: The largest.
        repeat_rate: The largest share of repeated 4-grams in the sampled turns, mean of `window`
            steps.
        invalid_rate: The largest share of invalid turns, mean of `window` steps.
        searches_drift: The largest change of the searches per episode, from the mean of `window`
            steps to that of the next `window`.
        reward_drop: The largest drop of the reward's mean over `window` steps below the best such
            mean.
        window: Steps averaged over. A checkpoint is good once as many steps without an alarm have
            followed it.
        lr_factor: The learning rates are multiplied by it at every rollback.
        kl_factor: So is the coefficient of the KL penalty; 1 leaves it.
        max_rollbacks: After so many the next alarm ends the run, at the last good checkpoint.
    """

    enabled: bool = True
    skipped_steps: int | None = 0
    ratio_tail: float | None = None
    kl_old: float | None = None
    entropy_low: float | None = None
    entropy_high: float | None = None
    repeat_rate: float | None = None
    invalid_rate: float | None = None
    searches_drift: float | None = None
    reward_drop: float | None = None
    window: int = 5
    lr_factor: float = 0.5
    kl_factor: float = 1.0
    max_rollbacks: int = 3

    def __post_init__(self) -> None:
        bounds.share(self, "ratio_tail", "repeat_rate", "invalid_rate", "lr_factor")
        bounds.positive(self, "lr_factor")
        bounds.at_least(self, 0, "skipped_steps", "kl_old", "entropy_low", "entropy_high")
        bounds.at_least(self, 0, "searches_drift", "reward_drop", "max_rollbacks")
        bounds.at_least(self, 1, "window", "kl_factor")


@dataclass(frozen=True, slots=True)
class Alarm:
    """A number beyond its threshold.

    Attributes:
        kind: The threshold's name in `GuardOptions`, or that of a number that must be finite.
        value: What was measured.
        threshold: What it must not pass.
    """

    kind: str
    value: float
    threshold: float

    def __str__(self) -> str:
        """In words."""
        if not math.isfinite(self.value):
            return f"{self.kind} is {self.value:g}"
        beyond = "below" if self.value < self.threshold else "above"
        return f"{self.kind} is {self.value:.4g}, {beyond} {self.threshold:g}"


def alarms(history: History, options: GuardOptions) -> list[Alarm]:
    """What the last line of a history rings for, the gravest first.

    Means over `window` steps need as many lines; lines of steps that were undone must not be there.
    """
    if not options.enabled:
        return []
    window, last = options.window, history[-1]
    found = _not_finite(last)
    for kind in ("skipped_steps", "ratio_tail", "kl_old"):
        found += _above(kind, _measured(last, kind, math.inf), getattr(options, kind))
    entropy = _mean(history, "entropy", window)
    found += _below("entropy_low", entropy, options.entropy_low)
    found += _above("entropy_high", entropy, options.entropy_high)
    for kind in ("repeat_rate", "invalid_rate"):
        found += _above(kind, _mean(history, kind, window), getattr(options, kind))
    searches = _mean(history, "searches_mean", window)
    before = _mean(history[:-window], "searches_mean", window)
    if searches is not None and before is not None:
        found += _above("searches_drift", abs(searches - before), options.searches_drift)
    found += _above("reward_drop", _drop(history, "reward_mean", window), options.reward_drop)
    return found


def _not_finite(line: Mapping[str, float | None]) -> list[Alarm]:
    """What is wrong whatever the thresholds say."""
    found = _above("nonfinite_weights", line.get("nonfinite_weights"), 0.0)
    # Of a step that was skipped they tell nothing more than `skipped_steps`.
    losses = () if line.get("skipped_steps") else ("policy_loss", "value_loss")
    values = {name: line.get(name) for name in losses}
    return found + [
        Alarm(name, value, math.inf)
        for name, value in values.items()
        if value is not None and not math.isfinite(value)
    ]


def _above(kind: str, value: float | None, threshold: float | None) -> list[Alarm]:
    if value is None or threshold is None or not value > threshold:
        return []
    return [Alarm(kind, value, threshold)]


def _below(kind: str, value: float | None, threshold: float | None) -> list[Alarm]:
    if value is None or threshold is None or not value < threshold:
        return []
    return [Alarm(kind, value, threshold)]


def _measured(line: Mapping[str, float | None], name: str, most: float = math.nan) -> float | None:
    """A number, if there is one; infinity is one only up to `most`."""
    value = line.get(name)
    return value if value is not None and (math.isfinite(value) or value == most) else None


def _mean(history: History, name: str, window: int) -> float | None:
    """Over the last `window` lines: of what was measured there."""
    values = [v for line in history[-window:] if (v := _measured(line, name)) is not None]
    return sum(values) / len(values) if values and len(history) >= window else None


def _drop(history: History, name: str, window: int) -> float | None:
    """How far the mean over the last `window` lines is below the best mean over as many."""
    values = [v for line in history if (v := _measured(line, name)) is not None]
    if len(values) < window:
        return None
    means = np.convolve(values, np.ones(window) / window, "valid")
    return float(means.max() - means[-1])
