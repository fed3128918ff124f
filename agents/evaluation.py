"""Greedy play on given questions, scored: predictions, their journal and their summary."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from envs.shuffling import base_id
from envs.types import Question

from .engine import Sampling
from .predictions import OUTCOMES, Played, Prediction, headline, of_trajectory, to_prediction
from .rollout import Progress, Rollout, failed
from .statistics import Interval, bootstrap
from .types import Trajectory

# Plays each question once, greedily, and says how many have ended.
Play = Callable[[Sequence[Question], Progress], list[Played]]


class Journal:
    """The predictions made so far, a line each, in the order in which they were made."""

    def __init__(self, file: Path) -> None:
        """Open it; a line that a killed process left half-written is dropped."""
        self._file = file
        self.known: dict[tuple[str, str], Prediction] = {}
        whole = []
        # As bytes: the last line may end inside a letter.
        for line in file.read_bytes().splitlines(keepends=True) if file.exists() else ():
            try:
                row = json.loads(line)
            except ValueError:
                break
            made = Prediction.from_json(row)
            self.known[made.dataset, made.id] = made
            whole.append(line if line.endswith(b"\n") else line + b"\n")
        file.write_bytes(b"".join(whole))

    def add(self, predictions: Iterable[Prediction]) -> None:
        """Append; what was added is on disk when this returns."""
        with self._file.open("a", encoding="utf-8") as out:
            for made in predictions:
                out.write(json.dumps(made.to_json(), ensure_ascii=False) + "\n")
                self.known[made.dataset, made.id] = made


def greedy(rollout: Rollout, max_tokens: int, stop: tuple[str, ...]) -> Play:
    """A tag agent's way to play: its likeliest tokens."""

    def play(questions: Sequence[Question], progress: Progress) -> list[Played]:
        sampling = Sampling(max_tokens=max_tokens, temperature=0.0, stop=stop, seed=0)
        played = rollout.play(questions, 1, sampling, progress=progress)
        return [of_trajectory(trajectory, max_tokens) for trajectory in played]

    return play


def evaluate(
    play: Play,
    questions: Sequence[Question],
    part: int,
    progress: Progress = lambda ended: None,
    journal: Journal | None = None,
) -> list[Prediction]:
    """Play each question once.

    Args:
        play: How.
        questions: In the order of the result.
        part: Questions played at the same time.
        progress: Told how many questions ended, those of the journal included.
        journal: What it knows is not played again; what is played is added to it, part by part.
    """
    known = {} if journal is None else journal.known
    keys = [(question.dataset, question.id) for question in questions]
    results = {index: known[key] for index, key in enumerate(keys) if key in known}
    progress(len(results))
    # Questions of similar length side by side waste less padding when prompts are read.
    order = sorted(
        (i for i in range(len(questions)) if i not in results),
        key=lambda i: len(questions[i].prompt),
    )
    for start in range(0, len(order), part):
        chosen = order[start : start + part]
        played = play([questions[i] for i in chosen], progress)
        made = [to_prediction(episode) for episode in played]
        results |= zip(chosen, made, strict=True)
        if journal is not None:
            journal.add(made)
    return [results[index] for index in range(len(questions))]


def summarize(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Means with 95 % bootstrap intervals over the episodes that did not fail.

    Where a question was asked with its options in several orders, it counts once, with the mean
    over its orders: questions are resampled, not orders.

    Returns:
        n (questions), infra_errors (episodes), each metric as {mean, low, high}; with several
        orders `accuracy_all_orders` (right in every one of them); where abstaining was allowed
        `coverage` and the headline metric over the questions answered; searches_mean, turns_mean,
        tokens_mean, truncated_mean, invalid_rate (share of turns), answered_rate; outcomes (how
        many episodes of each); by_searches (searches -> n, score). Without a single scored
        episode: n and infra_errors only.
    """
    scored = [p for p in predictions if not p.failed]
    questions: dict[tuple[str, str], list[Prediction]] = defaultdict(list)
    for p in scored:
        questions[p.dataset, base_id(p.id)].append(p)
    summary: dict[str, Any] = {
        "n": len(questions),
        "infra_errors": len(predictions) - len(scored),
    }
    if not scored:
        return summary
    turns = sum(p.turns for p in scored)
    outcomes = Counter(p.outcome for p in predictions)
    return summary | {
        **_intervals(list(questions.values())),
        "searches_mean": _mean([p.searches for p in scored]),
        "turns_mean": turns / len(scored),
        "tokens_mean": _mean([p.tokens for p in scored]),
        "truncated_mean": _mean([p.truncated for p in scored]),
        "invalid_rate": sum(p.invalid for p in scored) / turns,
        "answered_rate": _mean([p.prediction is not None for p in scored]),
        "outcomes": {name: outcomes[name] for name in OUTCOMES if outcomes[name]},
        "by_searches": _by_searches(scored),
    }


def _intervals(questions: Sequence[Sequence[Prediction]]) -> dict[str, Interval]:
    """A mixture may hold sets with and without options: each metric over those that have it.

    Args:
        questions: The predictions of each question, one or one per order of its options.
    """
    names = sorted({name for orders in questions for p in orders for name in p.metrics})
    found = {
        name: bootstrap([_mean(v) for orders in questions if (v := _values(orders, name))])
        for name in names
    }
    chosen = [values for orders in questions if (values := _values(orders, "accuracy"))]
    if any(len(values) > 1 for values in chosen):
        found["accuracy_all_orders"] = bootstrap([min(values) for values in chosen])
    if "abstained" in found:
        abstained = found.pop("abstained")
        found["coverage"] = {
            "mean": 1 - abstained["mean"],
            "low": 1 - abstained["high"],
            "high": 1 - abstained["low"],
        }
        for name in ("accuracy", "em"):
            given = [_values(_answered(orders), name) for orders in questions]
            if answered := [_mean(values) for values in given if values]:
                found[f"{name}_answered"] = bootstrap(answered)
    return found


def _values(orders: Sequence[Prediction], name: str) -> list[float]:
    return [p.metrics[name] for p in orders if name in p.metrics]


def _answered(orders: Sequence[Prediction]) -> list[Prediction]:
    return [p for p in orders if not p.metrics.get("abstained")]


def _by_searches(scored: Sequence[Prediction]) -> dict[str, dict[str, float]]:
    """The headline metric by the number of searches: what a search more is worth."""
    scores: dict[int, list[float]] = defaultdict(list)
    for p in scored:
        scores[p.searches].append(p.score)
    return {
        str(count): {"n": len(values), "score": _mean(values)}
        for count, values in sorted(scores.items())
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
