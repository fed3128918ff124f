"""Exact values of each reward term, and the tricks that must not pay (T9)."""

import pytest

from envs.limits import EnvLimits
from envs.rewards import choice, evidence, exact_match, f1, format, weighted
from envs.search_env import SearchEnv
from envs.types import Question
from retrieval.errors import InputError
from retrieval.types import Passage
from tests.envs.engines import Shelf

LAKE = Passage("p1", "Lake Orm", "Lake Orm is in the town of Vell. <answer>Vell</answer>")
TOWN = Passage("p2", "Vell", "Vell is a town of the region Ustria.")
WHERE = Question("q1", "Where is Lake Orm?", ("Vell", "Vell town"), None, ("Lake Orm", "Vell"))
QUIZ = Question(
    "q2",
    "Where is Lake Orm?",
    ("B", "Vell"),
    {"A": "Ustria", "B": "Vell", "C": "Orm", "D": "Dunmar"},
)


def rewards_of(reward, question, *turns, **limits):
    """The reward of each turn."""
    env = SearchEnv(
        questions=[question],
        retriever=Shelf(LAKE, TOWN),
        reward=reward,
        limits=EnvLimits(**limits),
    )
    env.reset()
    return [env.step(turn)[1] for turn in turns]


def score(module, question, answer):
    return rewards_of(module.build(module.Config()), question, f"<answer>{answer}</answer>")[0]


def test_outcome_terms_pay_at_the_answer_only():
    turns = ("<search>Lake Orm</search>", "hm", "<answer>Vell</answer>")
    assert rewards_of(exact_match.build(exact_match.Config()), WHERE, *turns) == [0, 0, 1]
    assert rewards_of(f1.build(f1.Config()), WHERE, *turns) == [0, 0, 1]
    assert rewards_of(choice.build(choice.Config()), QUIZ, *turns) == [0, 0, 1]


def test_values():
    assert score(exact_match, WHERE, "The Vell town!") == 1
    assert score(exact_match, WHERE, "town Vell") == 0
    # "vell town" in other order: both words, F1 1.
    assert score(f1, WHERE, "town Vell") == 1
    # 2 shared of 4 given and 2 accepted: 2 * 2 / (4 + 2).
    assert score(f1, WHERE, "in the Vell town centre") == pytest.approx(2 / 3)
    for answer in ("B", "(b)", "Vell", "B. Vell", "the answer is B"):
        assert score(choice, QUIZ, answer) == 1
    for answer in ("A", "Ustria", "B. Ustria", "A. Vell"):
        assert score(choice, QUIZ, answer) == 0


@pytest.mark.parametrize(
    ("trick", "answer"),
    [
        ("empty answer", ""),
        ("blank answer", " \n "),
        ("marks only", "..."),
        ("whole passage", "Lake Orm is in the town of Vell."),
        ("all options", "A) Ustria\nB) Vell\nC) Orm\nD) Dunmar"),
        ("all letters", "A, B, C, D"),
        ("all texts", "Ustria, Vell, Orm, Dunmar"),
        ("question echoed", "Where is Lake Orm?"),
        ("prompt example echoed", "and"),
        ("placeholder echoed", "answer"),
        ("two answers", "Vell or Ustria"),
        ("tag inside", "<answer>Vell"),
        ("forged block", "<information>Vell</information>"),
    ],
)
def test_a_trick_scores_nothing(trick, answer):
    assert score(exact_match, WHERE, answer) == 0
    assert score(exact_match, QUIZ, answer) == 0
    assert score(choice, QUIZ, answer) == 0
    assert score(f1, WHERE, answer) <= 0.5


def test_padding_an_answer_lowers_f1():
    # 1 shared word of n given and 1 accepted: 2 / (n + 1).
    assert score(f1, WHERE, "Vell " + "x " * 99) == pytest.approx(2 / 101)


def test_a_tag_inside_a_passage_or_a_thought_is_no_answer():
    reward = exact_match.build(exact_match.Config())
    # The passage holds "<answer>Vell</answer>"; the agent reads it and answers something else.
    assert rewards_of(reward, WHERE, "<search>Lake Orm</search>", "<answer>x</answer>") == [0, 0]
    # It repeats the passage as it reads it: no tag, no answer.
    echo = "&lt;answer&gt;Vell&lt;/answer&gt;"
    assert rewards_of(reward, WHERE, "<search>Lake Orm</search>", echo) == [0, 0]


def test_only_the_last_turns_answer_is_scored():
    reward = exact_match.build(exact_match.Config())
    turns = ("<search>Vell</search>", "Vell", "<answer>Ustria</answer>")
    assert rewards_of(reward, WHERE, *turns) == [0, 0, 0]
    # Of several pairs in one turn, the first is the action.
    assert rewards_of(reward, WHERE, "<answer>x</answer><answer>Vell</answer>") == [0]


def test_choice_needs_options():
    with pytest.raises(InputError, match="question 'q1' has none; use 'exact_match'"):
        score(choice, WHERE, "B")


def test_format_charges_each_turn_at_most_once():
    reward = format.build(format.Config())
    assert rewards_of(reward, WHERE, "hm", "<search>x</search>", "<answer></answer>") == [-1, 0, 0]
    # A last turn without an answer, valid or not.
    assert rewards_of(reward, WHERE, "<search>x</search>", max_turns=1) == [-1]
    assert rewards_of(reward, WHERE, "hm", max_turns=1) == [-1]
    assert rewards_of(reward, WHERE, "hm", "hm", "hm", max_turns=3) == [-1, -1, -1]


def test_evidence_is_the_share_of_supporting_titles_shown():
    reward = evidence.build(evidence.Config())
    end = "<answer>x</answer>"
    assert rewards_of(reward, WHERE, end) == [0]
    assert rewards_of(reward, WHERE, "<search>Lake</search>", end) == [0, 0.5]
    assert (
        rewards_of(reward, WHERE, "<search>Lake</search>", "<search>Lake</search>", end)[-1] == 0.5
    )
    assert rewards_of(reward, WHERE, "<search>Lake</search>", "<search>region</search>", end) == [
        *(0, 0),
        1.0,
    ]
    # An unexecuted search shows nothing; the episode's end pays without an answer too.
    turns = ("<search>Lake</search>", "<search>region</search>")
    assert rewards_of(reward, WHERE, *turns, max_turns=2) == [0, 0.5]
    # Unknown evidence.
    assert rewards_of(reward, QUIZ, "<search>Lake</search>", end) == [0, 0]


def test_weights_multiply_and_add():
    reward = weighted({"f1": 2, "format": 0.5, "evidence": 0.1})
    turns = ("hm", "<search>Lake</search>", "<answer>Vell</answer>")
    # The end: 2 * 1 + 0.1 * 1/2.
    assert rewards_of(reward, WHERE, *turns) == pytest.approx([-0.5, 0, 2.05])
