"""Scores, predictions and their summary: exact numbers, and real episodes of written turns."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from agents.evaluation import (
    Prediction,
    batch_metrics,
    evaluate,
    headline,
    score,
    summarize,
    to_prediction,
    transcript,
)
from agents.generation.hf import HFEngine
from agents.policy import SearchPolicy
from agents.statistics import bootstrap
from agents.types import Trajectory
from envs.actions import parse
from envs.types import Episode, Question, Step, StopReason
from retrieval.types import Hit, Passage
from tests.agents import builds

OPEN = Question("o", "Where?", ("Paris", "city of Paris"), dataset="open")
CHOICE = Question("c", "Which?", ("B", "Lyon"), {"A": "Paris", "B": "Lyon"}, dataset="choice")


@pytest.mark.parametrize(
    ("answer", "em", "f1"),
    [
        ("paris", 1.0, 1.0),
        ("The City of Paris!", 1.0, 1.0),
        # 1 common word of 2 and 1: 2 * 1 / (2 + 1).
        ("Paris, France", 0.0, 2 / 3),
        # 2 common words ("of", "paris") of 2 and 3 against "city of paris": 2 * 2 / (2 + 3).
        ("of Paris", 0.0, 0.8),
        ("London", 0.0, 0.0),
        ("", 0.0, 0.0),
        (None, 0.0, 0.0),
    ],
)
def test_an_open_question_is_scored_by_match_and_overlap(
    answer: str | None, em: float, f1: float
) -> None:
    assert score(OPEN, answer) == {"em": em, "f1": pytest.approx(f1)}


@pytest.mark.parametrize(
    ("answer", "accuracy"),
    [
        ("B", 1.0),
        ("b) Lyon", 1.0),
        ("Lyon", 1.0),
        ("A", 0.0),
        ("Paris", 0.0),
        ("A B", 0.0),
        ("", 0.0),
        (None, 0.0),
    ],
)
def test_a_question_with_options_is_scored_by_its_letter(
    answer: str | None, accuracy: float
) -> None:
    assert score(CHOICE, answer) == {"accuracy": accuracy}


HIT = Hit(Passage("p1", "Lyon", "Lyon is a city."), 2.5, 1)
SEARCH = Step(parse("<search>cities</search>"), (HIT,), "<information>...</information>", 0.25)
IDLE = Step(parse("hm"), (), "Invalid action.", 0.0)


def episode(question: Question, *steps: Step, answer: str | None = None) -> Episode:
    """Ended by an answer, or by the turn limit."""
    if answer is None:
        return Episode(question, steps, StopReason.TURN_LIMIT)
    last = Step(parse(f"<answer>{answer}</answer>"), (), "", 1.0)
    return Episode(question, (*steps, last), StopReason.ANSWERED)


def test_the_headline_is_accuracy_with_options_and_exact_match_without() -> None:
    assert headline(episode(CHOICE, answer="Lyon")) == 1.0
    assert headline(episode(OPEN, answer="of Paris")) == 0.0
    assert headline(episode(OPEN, answer="Paris")) == 1.0
    assert headline(episode(OPEN, IDLE)) == 0.0


def test_a_transcript_holds_the_turns_without_the_passages_texts() -> None:
    assert transcript(episode(CHOICE, SEARCH, IDLE, answer="B")) == (
        {
            "text": "<search>cities</search>",
            "action": "search",
            "content": "cities",
            "hits": [{"id": "p1", "title": "Lyon", "score": 2.5}],
            "observation": "<information>...</information>",
            "reward": 0.25,
        },
        {
            "text": "hm",
            "action": "invalid",
            "content": IDLE.action.content,
            "hits": [],
            "observation": "Invalid action.",
            "reward": 0.0,
        },
        {
            "text": "<answer>B</answer>",
            "action": "answer",
            "content": "B",
            "hits": [],
            "observation": "",
            "reward": 1.0,
        },
    )


def prediction(**changes: Any) -> Prediction:
    plain = Prediction(
        id="q",
        dataset="d",
        question="Where?",
        answers=("Paris",),
        prediction="Paris",
        metrics={"em": 1.0, "f1": 1.0},
        searches=1,
        turns=2,
        invalid=0,
        tokens=10,
        stop_reason="answered",
        steps=(),
    )
    return replace(plain, **changes)


def test_a_mixture_is_summarised_metric_by_metric_without_failed_retrievals() -> None:
    lost = {"prediction": None, "metrics": {"em": 0.0, "f1": 0.0}, "stop_reason": "turn_limit"}
    predictions = [
        prediction(),
        prediction(metrics={"em": 0.0, "f1": 0.5}, searches=3, turns=4, tokens=20),
        prediction(metrics={"accuracy": 1.0}, searches=0, turns=1, tokens=6),
        prediction(**lost, searches=0, turns=3, invalid=3, tokens=24),
        # As good as can be, and in no average: the engine failed.
        prediction(stop_reason="retrieval_error", searches=100, turns=100, tokens=1000),
    ]
    assert summarize(predictions) == {
        "n": 4,
        "infra_errors": 1,
        "accuracy": bootstrap([1.0]),
        "em": bootstrap([1.0, 0.0, 0.0]),
        "f1": bootstrap([1.0, 0.5, 0.0]),
        "searches_mean": 1.0,  # (1 + 3 + 0 + 0) / 4
        "turns_mean": 2.5,  # (2 + 4 + 1 + 3) / 4
        "tokens_mean": 15.0,  # (10 + 20 + 6 + 24) / 4
        "invalid_rate": 0.3,  # 3 of 10 turns
        "answered_rate": 0.75,
    }


def test_without_a_scored_episode_there_is_nothing_to_average() -> None:
    failed = prediction(stop_reason="retrieval_error")
    assert summarize([failed, failed]) == {"n": 0, "infra_errors": 2}
    assert summarize([]) == {"n": 0, "infra_errors": 0}


def test_a_prediction_survives_its_file() -> None:
    made = to_prediction(Trajectory(episode(OPEN, SEARCH, answer="Paris"), (), 0))
    assert made.score == 1.0
    again = Prediction(**json.loads(json.dumps(made.to_json())))
    assert json.dumps(again.to_json()) == json.dumps(made.to_json())
    assert again.score == 1.0


def test_batch_metrics_leave_out_failed_retrievals() -> None:
    broken = Episode(OPEN, (SEARCH,), StopReason.RETRIEVAL_ERROR)
    episodes = [
        episode(OPEN, SEARCH, answer="Paris"),  # 0.25 + 1, em 1, 1 search
        episode(CHOICE, IDLE, IDLE, answer="A"),  # 1, em 0, 2 of 3 turns invalid
        episode(OPEN, SEARCH, IDLE),  # 0.25, em 0, 1 search, 1 of 2 turns invalid
        broken,
    ]
    assert batch_metrics([Trajectory(e, (), 0) for e in episodes]) == {
        "reward_mean": pytest.approx(2.5 / 3),
        "em": pytest.approx(1 / 3),
        "searches_mean": pytest.approx(2 / 3),
        "invalid_rate": pytest.approx(3 / 7),
    }


QUESTIONS = list(builds.world().questions)[:12]


def expert(policy: SearchPolicy, right: bool) -> builds.ScriptedEngine:
    """Searches for the first title the question needs, then answers."""
    # Questions are played in the order of their length.
    played = sorted(QUESTIONS, key=lambda question: len(question.prompt))

    def write(row: int, turn: int) -> list[int]:
        question = played[row]
        if turn == 0:
            return policy.encode(f"<search> {question.supporting_titles[0]} </search>")
        answer = question.answers[0] if right else question.id
        return policy.encode(f"<answer> {answer} </answer>")

    return builds.ScriptedEngine(write)


@pytest.mark.parametrize("right", [True, False])
def test_predictions_stand_in_the_order_of_the_questions(policy: SearchPolicy, right: bool) -> None:
    engine = expert(policy, right)
    rollout = builds.build_rollout(engine, policy)
    assert len({len(question.prompt) for question in QUESTIONS}) > 3
    ended: list[int] = []
    made = evaluate(rollout, QUESTIONS, 8, builds.STOP, ended.append)
    assert sum(ended) == 12
    assert [p.id for p in made] == [q.id for q in QUESTIONS]
    for question, found in zip(QUESTIONS, made, strict=True):
        answer = question.answers[0] if right else question.id
        assert found.question == question.prompt and found.answers == question.answers
        assert found.prediction == answer
        assert found.metrics == {"em": float(right), "f1": float(right)}
        assert (found.searches, found.turns, found.invalid) == (1, 2, 0)
        assert found.stop_reason == "answered"
        assert found.steps[0]["content"] == question.supporting_titles[0]
        assert question.supporting_titles[0] in [hit["title"] for hit in found.steps[0]["hits"]]
        texts = [step["text"] for step in found.steps]
        assert found.tokens == sum(len(policy.encode(text)) for text in texts)
    summary = summarize(made)
    assert summary["em"] == {"mean": float(right), "low": float(right), "high": float(right)}
    assert (summary["n"], summary["searches_mean"], summary["answered_rate"]) == (12, 1.0, 1.0)


def test_evaluation_is_greedy_and_repeats_itself(policy: SearchPolicy) -> None:
    rollout = builds.build_rollout(HFEngine(policy), policy)
    first, second = (evaluate(rollout, QUESTIONS, 6, builds.STOP) for _ in range(2))
    assert [asdict(p) for p in first] == [asdict(p) for p in second]
    alone = [evaluate(rollout, [question], 6, builds.STOP)[0] for question in QUESTIONS[:3]]
    # T21: what an agent answers does not depend on who is evaluated beside it.
    assert [p.steps for p in alone] == [p.steps for p in first[:3]]


def test_a_question_may_be_asked_twice(policy: SearchPolicy) -> None:
    rollout = builds.build_rollout(HFEngine(policy), policy, max_episodes=2)
    made = evaluate(rollout, [QUESTIONS[0], QUESTIONS[1], QUESTIONS[0]], 6, builds.STOP)
    assert made[0] == made[2] and made[0].id != made[1].id
