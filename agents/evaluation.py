"""Greedy play on given questions, scored: predictions and their summary."""

from collections.abc import Sequence
from typing import Any

from envs.types import Question

from .engine import Sampling
from .predictions import Prediction, headline, of_trajectory, to_prediction
from .rollout import Progress, Rollout, failed
from .statistics import Interval, bootstrap
from .types import Trajectory


def evaluate(
    rollout: Rollout,
    questions: Sequence[Question],
    max_tokens: int,
    stop: tuple[str, ...],
    progress: Progress = lambda ended: None,
) -> list[Prediction]:
    """Play each question once, greedily."""
    sampling = Sampling(max_tokens=max_tokens, temperature=0.0, stop=stop, seed=0)
    # Questions of similar length side by side waste less padding when prompts are read.
    order = sorted(range(len(questions)), key=lambda i: len(questions[i].prompt))
    played = rollout.play([questions[i] for i in order], 1, sampling, progress=progress)
    results = dict(zip(order, played, strict=True))
    return [
        to_prediction(of_trajectory(results[index], max_tokens)) for index in range(len(questions))
    ]


def summarize(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Means with 95 % bootstrap intervals over the episodes whose retrieval worked.

    Returns:
        n, infra_errors, each metric as {mean, low, high}, searches_mean, turns_mean, tokens_mean,
        invalid_rate (share of turns), answered_rate. Without a single scored episode: n and
        infra_errors only.
    """
    scored = [p for p in predictions if not p.failed]
    summary: dict[str, Any] = {"n": len(scored), "infra_errors": len(predictions) - len(scored)}
    if not scored:
        return summary
    turns = sum(p.turns for p in scored)
    return summary | {
        **_intervals(scored),
        "searches_mean": _mean([p.searches for p in scored]),
        "turns_mean": turns / len(scored),
        "tokens_mean": _mean([p.tokens for p in scored]),
        "invalid_rate": sum(p.invalid for p in scored) / turns,
        "answered_rate": _mean([p.prediction is not None for p in scored]),
    }


def _intervals(scored: Sequence[Prediction]) -> dict[str, Interval]:
    """A mixture may hold sets with and without options: each metric over those that have it."""
    names = sorted({name for p in scored for name in p.metrics})
    return {
        name: bootstrap([p.metrics[name] for p in scored if name in p.metrics]) for name in names
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def batch_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """What a rollout batch says of the policy: reward_mean, em, searches_mean, invalid_rate."""
    episodes = [t.episode for t in trajectories if not failed(t.episode)]
    turns = sum(len(episode.steps) for episode in episodes)
    return {
        "reward_mean": _mean([episode.reward for episode in episodes]),
        "em": _mean([headline(episode) for episode in episodes]),
        "searches_mean": _mean([episode.num_searches for episode in episodes]),
        "invalid_rate": sum(episode.num_invalid for episode in episodes) / turns,
    }
