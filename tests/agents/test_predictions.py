"""One scored episode: its metrics, its transcript, and where an answer was lost."""

import json
from dataclasses import replace

import pytest

from agents.predictions import (
    OUTCOMES,
    Played,
    Prediction,
    headline,
    of_trajectory,
    score,
    to_prediction,
    transcript,
)
from agents.types import Trajectory, Turn
from envs.actions import parse
from envs.types import Episode, Question, Step, StopReason
from retrieval.types import Hit, Passage

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
    assert score(CHOICE, answer)["accuracy"] == accuracy


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
            "hits": [{"id": "p1", "title": "Lyon", "score": 2.5, "gold": False}],
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


def test_a_prediction_survives_its_file() -> None:
    made = to_prediction(Played(episode(OPEN, SEARCH, answer="Paris"), 3))
    assert made.score == 1.0
    again = Prediction.from_json(json.loads(json.dumps(made.to_json())))
    assert json.dumps(again.to_json()) == json.dumps(made.to_json())
    assert again.score == 1.0


def test_what_names_no_option_and_what_names_several_is_counted() -> None:
    assert score(CHOICE, "A or B") == {"accuracy": 0.0, "tie": 1.0, "unparsed": 0.0}
    assert score(CHOICE, "no idea") == {"accuracy": 0.0, "tie": 0.0, "unparsed": 1.0}
    assert score(CHOICE, "B") == {"accuracy": 1.0, "tie": 0.0, "unparsed": 0.0}


def test_abstaining_counts_only_where_it_was_allowed() -> None:
    allowed = replace(CHOICE, may_abstain=True)
    assert score(allowed, "Unknown.") == {
        "accuracy": 0.0,
        "tie": 0.0,
        "unparsed": 0.0,
        "abstained": 1.0,
    }
    assert score(allowed, "B")["abstained"] == 0.0
    assert "abstained" not in score(CHOICE, "unknown")
    assert score(replace(OPEN, may_abstain=True), "unknown")["abstained"] == 1.0
    # The agent is told; who is not told reads the question as it was.
    assert allowed.prompt == f"{CHOICE.prompt}\nIf you cannot find the answer, answer: unknown"


def found(*passages: Passage) -> Step:
    hits = tuple(Hit(passage, 1.0, rank) for rank, passage in enumerate(passages, 1))
    return Step(parse("<search>x</search>"), hits, "<information>...</information>", 0.0)


GOLD, OTHER = (
    Passage("g", "Seine", "It flows through Paris."),
    Passage("x", "Po", "It is in Italy."),
)
TITLED = replace(OPEN, supporting_titles=("Seine",))
BY_ID = replace(OPEN, source_ids=("g",))
BOTH = replace(OPEN, supporting_titles=("Seine", "Rhine"))
KNOWN = replace(CHOICE, source_ids=("g",))


@pytest.mark.parametrize(
    ("question", "steps", "answer", "outcome"),
    [
        (TITLED, [found(OTHER)], "Paris", "right"),
        (TITLED, [found(OTHER)], "Italy", "not_retrieved"),
        (TITLED, [], "Italy", "not_retrieved"),
        (TITLED, [found(GOLD)], "through", "answered_wrongly"),
        (TITLED, [found(GOLD)], "London", "not_answered_from"),
        (TITLED, [found(GOLD)], None, "not_answered_from"),
        (BY_ID, [found(GOLD)], "through", "answered_wrongly"),
        (BY_ID, [found(OTHER)], "through", "not_retrieved"),
        # All of the evidence, or it was not retrieved.
        (BOTH, [found(GOLD)], "through", "not_retrieved"),
        # Evidence unknown: an accepted answer in a passage shown stands for it.
        (OPEN, [found(GOLD)], "through", "answered_wrongly"),
        (OPEN, [found(OTHER)], "Italy", "not_retrieved"),
        # With options too, but they need their evidence known.
        (CHOICE, [found(GOLD)], "A", "wrong"),
        (KNOWN, [found(GOLD)], "A", "answered_wrongly"),
        (KNOWN, [found(GOLD)], "no idea", "not_answered_from"),
        (KNOWN, [found(OTHER)], "A", "not_retrieved"),
        (replace(TITLED, may_abstain=True), [found(OTHER)], "unknown", "abstained"),
    ],
)
def test_where_an_answer_was_lost(
    question: Question, steps: list[Step], answer: str | None, outcome: str
) -> None:
    made = to_prediction(Played(episode(question, *steps, answer=answer), 0))
    assert made.outcome == outcome and outcome in OUTCOMES


def test_evidence_is_counted_and_marked() -> None:
    made = to_prediction(Played(episode(BOTH, found(GOLD, OTHER), answer="Paris"), 0))
    assert made.metrics["evidence_recall"] == 0.5 and made.evidence == ("Seine", "Rhine")
    assert [hit["gold"] for hit in made.steps[0]["hits"]] == [True, False]
    unknown = to_prediction(Played(episode(OPEN, found(GOLD), answer="Paris"), 0))
    assert "evidence_recall" not in unknown.metrics and unknown.evidence == ()


def test_what_failed_is_no_result() -> None:
    broken = Episode(TITLED, (found(GOLD),), StopReason.RETRIEVAL_ERROR)
    lost = to_prediction(Played(broken, 0))
    assert lost.failed and lost.outcome == "failed"
    silent = to_prediction(Played(Episode(TITLED, ()), 0, model_failed=True))
    assert silent.failed and silent.stop_reason == "model_error" and silent.outcome == "failed"
    assert not to_prediction(Played(episode(TITLED, answer="Rome"), 0)).failed


def test_turns_cut_off_at_their_most_tokens_are_counted() -> None:
    turns = [
        Turn((1,), (5, 6, 7), (0.0, 0.0, 0.0), IDLE),  # cut
        Turn((1,), (5, 6), (0.0, 0.0), IDLE),  # ended by itself
        Turn((1,), (5, 6, 7), (0.0, 0.0, 0.0), SEARCH),  # closed with its last token
    ]
    trajectory = Trajectory(episode(OPEN, *(turn.step for turn in turns)), tuple(turns), 0)
    assert of_trajectory(trajectory, 3) == Played(trajectory.episode, 8, 1)
    assert of_trajectory(trajectory).truncated == 0
