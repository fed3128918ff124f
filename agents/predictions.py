"""One scored episode: what a line of predictions.jsonl holds."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from envs.answers import exact_match, f1, mentions, normalize
from envs.options import named_options
from envs.types import ABSTENTION, Episode, Question, StopReason
from retrieval.types import Hit

from .types import Trajectory

# Prediction.outcome, in the order in which a report lists them.
OUTCOMES = {
    "right": "right",
    "abstained": "said that it does not know, where that was allowed",
    "not_retrieved": "wrong, and the evidence was not among the passages shown",
    "not_answered_from": "wrong, and the answer (if any) stands in no passage although the "
    "evidence was shown",
    "answered_wrongly": "wrong, with the evidence shown and an answer that stands in a passage or "
    "names an option",
    "wrong": "wrong, and what the evidence is, is not known",
    "failed": "no result: retrieval or the model's endpoint failed",
}
# Besides the values of envs.types.StopReason.
MODEL_ERROR = "model_error"


@dataclass(frozen=True, slots=True)
class Played:
    """A finished episode with what the environment does not know of it.

    Attributes:
        episode: The environment's record.
        tokens: Tokens the model generated.
        truncated: Generations cut off at the most tokens of a turn.
        model_failed: The model's endpoint gave no reply; the episode did not end.
    """

    episode: Episode
    tokens: int
    truncated: int = 0
    model_failed: bool = False


@dataclass(frozen=True, slots=True)
class Prediction:
    """One question's result, with the whole episode.

    Attributes:
        id: The question's.
        dataset: The question's.
        question: As the agent read it.
        answers: Accepted ones.
        prediction: The final answer; None when none was given.
        metrics: em and f1, or accuracy, tie and unparsed for questions with options, 0 or 1 each;
            abstained where that was allowed; evidence_recall where the evidence is known.
        searches: Executed searches.
        turns: Turns taken.
        invalid: Turns without a valid action.
        tokens: Tokens the agent generated.
        stop_reason: Why the episode ended; "retrieval_error" and "model_error" episodes are in no
            average.
        steps: The turns: text, action, content, hits (id, title, score, gold), observation, reward.
        options: Letter -> text; None for open questions.
        evidence: Titles, or else ids, of the passages that hold it; empty when unknown.
        truncated: Generations cut off at the most tokens of a turn.
        outcome: A key of `OUTCOMES`.
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
    options: dict[str, str] | None = None
    evidence: tuple[str, ...] = ()
    truncated: int = 0
    outcome: str = ""

    @property
    def failed(self) -> bool:
        """Whether retrieval or the model's endpoint failed."""
        return self.stop_reason in (StopReason.RETRIEVAL_ERROR, MODEL_ERROR)

    @property
    def score(self) -> float:
        """The headline metric: accuracy with options, else exact match."""
        return self.metrics["accuracy" if "accuracy" in self.metrics else "em"]

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> "Prediction":
        """The prediction that `to_json` wrote."""
        lists = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
        return cls(**{**row, **lists})


def score(question: Question, answer: str | None) -> dict[str, float]:
    """The metrics of one final answer (None scores 0); the headline metric comes first."""
    text = answer or ""
    if question.options:
        named = named_options(text, question.options)
        metrics = {
            "accuracy": float(named == {question.answers[0]}),
            "tie": float(len(named) > 1),
            "unparsed": float(not named),
        }
    else:
        metrics = {
            "em": float(exact_match(text, question.answers)),
            "f1": f1(text, question.answers),
        }
    if question.may_abstain:
        metrics["abstained"] = float(normalize(text) == ABSTENTION)
        if metrics["abstained"]:
            metrics |= {"unparsed": 0.0} if question.options else {}
    return metrics


def headline(episode: Episode) -> float:
    """The headline metric of an episode: accuracy with options, else exact match."""
    return next(iter(score(episode.question, episode.answer).values()))


def of_trajectory(trajectory: Trajectory, max_tokens: int | None = None) -> Played:
    """A sampled episode; with `max_tokens`, the most tokens of a turn, its truncations counted."""
    cut = sum(
        len(turn.action_ids) == max_tokens and turn.step.action.kind == "invalid"
        for turn in trajectory.turns
    )
    return Played(trajectory.episode, trajectory.num_action_tokens, cut)


def to_prediction(played: Played) -> Prediction:
    """Score a finished episode."""
    episode = played.episode
    question = episode.question
    metrics = score(question, episode.answer)
    if (recall := evidence_recall(episode)) is not None:
        metrics["evidence_recall"] = recall
    return Prediction(
        id=question.id,
        dataset=question.dataset,
        question=question.prompt,
        answers=question.answers,
        prediction=episode.answer,
        metrics=metrics,
        searches=episode.num_searches,
        turns=len(episode.steps),
        invalid=episode.num_invalid,
        tokens=played.tokens,
        stop_reason=MODEL_ERROR if played.model_failed else str(episode.stop_reason),
        steps=transcript(episode),
        options=dict(question.options) if question.options else None,
        evidence=_evidence(question),
        truncated=played.truncated,
        outcome=_outcome(played, metrics),
    )


def transcript(episode: Episode) -> tuple[dict[str, Any], ...]:
    """An episode's turns as JSON objects; the passages' text stands in the observation."""
    return tuple(
        {
            "text": step.action.text,
            "action": str(step.action.kind),
            "content": step.action.content,
            "hits": [
                {
                    "id": hit.passage.id,
                    "title": hit.passage.title,
                    "score": hit.score,
                    "gold": _is_gold(hit, episode.question),
                }
                for hit in step.hits
            ],
            "observation": step.observation,
            "reward": step.reward,
        }
        for step in episode.steps
    )


def _evidence(question: Question) -> tuple[str, ...]:
    return question.supporting_titles or question.source_ids


def _is_gold(hit: Hit, question: Question) -> bool:
    if question.supporting_titles:
        return hit.passage.title in question.supporting_titles
    return hit.passage.id in question.source_ids


def evidence_recall(episode: Episode) -> float | None:
    """The share of the question's evidence that the searches showed; None when it is unknown.

    The evidence is the supporting titles, or else the source passages.
    """
    wanted = frozenset(_evidence(episode.question))
    if not wanted:
        return None
    passages = [hit.passage for step in episode.steps for hit in step.hits]
    by_title = bool(episode.question.supporting_titles)
    shown = {passage.title if by_title else passage.id for passage in passages}
    return len(wanted & shown) / len(wanted)


def _outcome(played: Played, metrics: dict[str, float]) -> str:
    """Where an answer was lost, a key of `OUTCOMES`.

    The evidence was shown if all of it was; where it is unknown and the question is open, if an
    accepted answer stands in a passage shown (the field's proxy, DPR, arXiv:2004.04906).
    """
    episode = played.episode
    question = episode.question
    if played.model_failed or episode.stop_reason is StopReason.RETRIEVAL_ERROR:
        return "failed"
    if next(iter(metrics.values())):
        return "right"
    if metrics.get("abstained"):
        return "abstained"
    texts = [f"{h.passage.title} {h.passage.text}" for step in episode.steps for h in step.hits]
    if (recall := metrics.get("evidence_recall")) is not None:
        shown = recall == 1.0
    elif question.options:
        return "wrong"
    else:
        shown = _stands_in(question.answers, texts)
    if not shown:
        return "not_retrieved"
    if question.options:
        return "not_answered_from" if metrics["unparsed"] else "answered_wrongly"
    answered = episode.answer is not None and _stands_in([episode.answer], texts)
    return "answered_wrongly" if answered else "not_answered_from"


def _stands_in(answers: Sequence[str], texts: Sequence[str]) -> bool:
    return any(mentions(text, answer) for text in texts for answer in answers)
