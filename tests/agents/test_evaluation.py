"""Evaluation: real episodes of written turns, the journal, and summaries in exact numbers."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from agents.evaluation import Journal, batch_metrics, evaluate, greedy, summarize
from agents.generation.hf import HFEngine
from agents.policy import SearchPolicy
from agents.predictions import Played, Prediction
from agents.rollout import Rollout
from agents.statistics import bootstrap
from agents.types import Trajectory
from envs.actions import parse
from envs.types import Episode, Question, Step, StopReason
from retrieval.types import Hit, Passage
from tests.agents import builds

OPEN = Question("o", "Where?", ("Paris", "city of Paris"), dataset="open")
CHOICE = Question("c", "Which?", ("B", "Lyon"), {"A": "Paris", "B": "Lyon"}, dataset="choice")
HIT = Hit(Passage("p1", "Lyon", "Lyon is a city."), 2.5, 1)
SEARCH = Step(parse("<search>cities</search>"), (HIT,), "<information>...</information>", 0.25)
IDLE = Step(parse("hm"), (), "Invalid action.", 0.0)


def episode(question: Question, *steps: Step, answer: str | None = None) -> Episode:
    """Ended by an answer, or by the turn limit."""
    if answer is None:
        return Episode(question, steps, StopReason.TURN_LIMIT)
    last = Step(parse(f"<answer>{answer}</answer>"), (), "", 1.0)
    return Episode(question, (*steps, last), StopReason.ANSWERED)


def played(rollout: Rollout, questions: Any, max_tokens: int, part: int = 64) -> list[Prediction]:
    return evaluate(greedy(rollout, max_tokens, builds.STOP), questions, part)


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
        outcome="right",
    )
    return replace(plain, **changes)


def test_a_mixture_is_summarised_metric_by_metric_without_failed_retrievals() -> None:
    lost = {"prediction": None, "metrics": {"em": 0.0, "f1": 0.0}, "stop_reason": "turn_limit"}
    predictions = [
        prediction(),
        prediction(
            id="b", metrics={"em": 0.0, "f1": 0.5}, searches=3, turns=4, tokens=20, truncated=2
        ),
        prediction(id="c", metrics={"accuracy": 1.0}, searches=0, turns=1, tokens=6),
        prediction(id="d", **lost, searches=0, turns=3, invalid=3, tokens=24),
        # As good as can be, and in no average: the engine failed.
        prediction(
            id="e", stop_reason="retrieval_error", outcome="failed", searches=100, turns=100
        ),
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
        "truncated_mean": 0.5,  # (0 + 2 + 0 + 0) / 4
        "invalid_rate": 0.3,  # 3 of 10 turns
        "answered_rate": 0.75,
        "outcomes": {"right": 4, "failed": 1},
        # No search: 1 and 0; one: 1; three: 0.
        "by_searches": {
            "0": {"n": 2, "score": 0.5},
            "1": {"n": 1, "score": 1.0},
            "3": {"n": 1, "score": 0.0},
        },
    }


def test_without_a_scored_episode_there_is_nothing_to_average() -> None:
    failed = prediction(stop_reason="retrieval_error")
    assert summarize([failed, failed]) == {"n": 0, "infra_errors": 2}
    assert summarize([]) == {"n": 0, "infra_errors": 0}


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
    play = greedy(rollout, 8, builds.STOP)
    made = evaluate(play, QUESTIONS, 64, ended.append)
    assert sum(ended) == 12
    assert [p.id for p in made] == [q.id for q in QUESTIONS]
    for question, found in zip(QUESTIONS, made, strict=True):
        answer = question.answers[0] if right else question.id
        assert found.question == question.prompt and found.answers == question.answers
        assert found.prediction == answer
        assert {k: found.metrics[k] for k in ("em", "f1")} == {"em": right, "f1": right}
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
    first, second = (played(rollout, QUESTIONS, 6) for _ in range(2))
    assert [asdict(p) for p in first] == [asdict(p) for p in second]
    alone = [played(rollout, [question], 6)[0] for question in QUESTIONS[:3]]
    # T21: what an agent answers does not depend on who is evaluated beside it.
    assert [p.steps for p in alone] == [p.steps for p in first[:3]]


def test_a_question_may_be_asked_twice(policy: SearchPolicy) -> None:
    rollout = builds.build_rollout(HFEngine(policy), policy, max_episodes=2)
    made = played(rollout, [QUESTIONS[0], QUESTIONS[1], QUESTIONS[0]], 6)
    assert made[0] == made[2] and made[0].id != made[1].id


@pytest.mark.parametrize("part", [1, 7, 64])
def test_predictions_do_not_depend_on_how_many_are_played_together(
    policy: SearchPolicy, part: int
) -> None:
    rollout = builds.build_rollout(HFEngine(policy), policy, max_episodes=part)
    everybody = builds.build_rollout(HFEngine(policy), policy)
    assert played(rollout, QUESTIONS, 6, part) == played(everybody, QUESTIONS, 6)


def test_orders_of_one_question_count_as_one() -> None:
    def asked(name: str, order: int, right: bool) -> Prediction:
        made = {"accuracy": float(right), "tie": 0.0, "unparsed": 0.0}
        return prediction(id=f"{name}#order{order}", metrics=made)

    predictions = [
        *(asked("a", order, True) for order in range(4)),
        *(asked("b", order, order < 1) for order in range(4)),
    ]
    summary = summarize(predictions)
    assert summary["n"] == 2
    # Means over orders: 1 and 1/4; right in all of them: 1 and 0.
    assert summary["accuracy"] == bootstrap([1.0, 0.25])
    assert summary["accuracy_all_orders"] == bootstrap([1.0, 0.0])


def test_an_open_question_asked_twice_counts_once() -> None:
    summary = summarize([prediction(), prediction(metrics={"em": 0.0, "f1": 0.5})])
    assert summary["n"] == 1 and summary["em"] == bootstrap([0.5])
    assert "accuracy_all_orders" not in summary


def test_coverage_and_the_score_over_what_was_answered() -> None:
    def answered(name: str, em: float, abstained: float) -> Prediction:
        return prediction(id=name, metrics={"em": em, "f1": em, "abstained": abstained})

    made = [answered("a", 1.0, 0.0), answered("b", 0.0, 0.0), answered("c", 0.0, 1.0)]
    summary = summarize(made)
    covered = bootstrap([0.0, 0.0, 1.0])
    assert summary["coverage"] == {
        "mean": 1 - covered["mean"],
        "low": 1 - covered["high"],
        "high": 1 - covered["low"],
    }
    assert summary["em"] == bootstrap([1.0, 0.0, 0.0])
    assert summary["em_answered"] == bootstrap([1.0, 0.0])
    assert "abstained" not in summary


def written(questions: Any, progress: Any) -> list[Played]:
    return [Played(episode(question, answer="Paris"), 1) for question in questions]


def test_a_journal_is_taken_up_where_it_stops(tmp_path: Path) -> None:
    file = tmp_path / "predictions.jsonl"
    asked = [replace(OPEN, id=str(number), text="?" * (9 - number)) for number in range(9)]
    whole = evaluate(written, asked, 2, journal=Journal(tmp_path / "whole.jsonl"))

    def failing(questions: Any, progress: Any) -> list[Played]:
        if asked[3] in questions:
            raise KeyboardInterrupt
        return written(questions, progress)

    with pytest.raises(KeyboardInterrupt):
        evaluate(failing, asked, 2, journal=Journal(file))
    # Shortest first: 8, 7 | 6, 5 | then 4, 3 failed.
    assert list(Journal(file).known) == [("open", name) for name in ("8", "7", "6", "5")]
    # Killed within a line, and within a letter.
    with file.open("ab") as out:
        out.write('{"id": "é'.encode()[:-1])
    told: list[int] = []
    seen: list[Question] = []

    def watched(questions: Any, progress: Any) -> list[Played]:
        seen.extend(questions)
        return written(questions, progress)

    again = evaluate(watched, asked, 2, told.append, Journal(file))
    assert again == whole
    assert told[0] == 4 and [q.id for q in seen] == ["4", "3", "2", "1", "0"]
    kept = Journal(file).known
    assert len(kept) == 9 and asdict(kept["open", "0"]) == asdict(whole[0])
