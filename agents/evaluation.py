"""Greedy play on given questions, scored: predictions and their summary."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from envs.answers import exact_match, f1, option_letter
from envs.types import Episode, Question, StopReason

from .engine import Sampling
from .rollout import Progress, Rollout, failed
from .statistics import Interval, bootstrap
from .types import Trajectory


@dataclass(frozen=True, slots=True)
class Prediction:
    """One question's result, with the whole episode.

    Attributes:
        id: The question's.
        dataset: The question's.
        question: As the agent read it.
        answers: Accepted ones.
        prediction: The final answer; None when none was given.
        metrics: em and f1, or accuracy for questions with options; 0 without an answer.
        searches: Executed searches.
        turns: Turns taken.
        invalid: Turns without a valid action.
        tokens: Tokens the agent generated.
        stop_reason: Why the episode ended; "retrieval_error" episodes are in no average.
        steps: The turns: text, action, hits (id, title, score), observation, reward.
    """

    id: str
    dataset: str
    question: str
    answers: tuple[str, ...]
    prediction: str | None
    metrics: dict[str, float]
    searches: int
    turns: int
    invalid: int
    tokens: int
    stop_reason: str
    steps: tuple[dict[str, Any], ...]

    @property
    def failed(self) -> bool:
        """Whether the episode ended because retrieval failed."""
        return self.stop_reason == StopReason.RETRIEVAL_ERROR

    @property
    def score(self) -> float:
        """The headline metric: accuracy with options, else exact match."""
        return self.metrics["accuracy" if "accuracy" in self.metrics else "em"]

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return asdict(self)


def score(question: Question, answer: str | None) -> dict[str, float]:
    """The metrics of one final answer (None scores 0)."""
    text = answer or ""
    if question.options:
        letter = option_letter(text, question.options)
        return {"accuracy": float(letter == question.answers[0])}
    return {"em": float(exact_match(text, question.answers)), "f1": f1(text, question.answers)}


def headline(episode: Episode) -> float:
    """The headline metric of an episode: accuracy with options, else exact match."""
    return next(iter(score(episode.question, episode.answer).values()))


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
    return [to_prediction(results[index]) for index in range(len(questions))]


def to_prediction(trajectory: Trajectory) -> Prediction:
    """Score a finished episode."""
    episode = trajectory.episode
    question = episode.question
    return Prediction(
        id=question.id,
        dataset=question.dataset,
        question=question.prompt,
        answers=question.answers,
        prediction=episode.answer,
        metrics=score(question, episode.answer),
        searches=episode.num_searches,
        turns=len(episode.steps),
        invalid=episode.num_invalid,
        tokens=trajectory.num_action_tokens,
        stop_reason=str(episode.stop_reason),
        steps=transcript(episode),
    )


def transcript(episode: Episode) -> tuple[dict[str, Any], ...]:
    """An episode's turns as JSON objects; the passages' text stands in the observation."""
    return tuple(
        {
            "text": step.action.text,
            "action": str(step.action.kind),
            "content": step.action.content,
            "hits": [
                {"id": hit.passage.id, "title": hit.passage.title, "score": hit.score}
                for hit in step.hits
            ],
            "observation": step.observation,
            "reward": step.reward,
        }
        for step in episode.steps
    )


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
