import dataclasses

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.actions import INVALID, LAST_TURN, NO_RESULTS, REMINDER
from envs.limits import EnvLimits
from envs.search_env import SearchEnv
from envs.spaces import FreeText
from envs.types import ActionKind, Episode, Question, Step, StopReason
from retrieval.errors import InputError, RetrievalError
from retrieval.types import Passage
from tests.envs.engines import Down, Fixed, Shelf

DUNE = Passage("p1", "Dune", "Dune is a novel by Frank Herbert.")
HERBERT = Passage("p2", "Frank Herbert", "Frank Herbert was born in Tacoma.")
TACOMA = Passage("p3", "Tacoma", "Tacoma is a city in Washington.")
QUESTION = Question("q1", "Where was the author of Dune born?", ("Tacoma",))
QUIZ = Question("q2", "Which is a city?", ("B", "Tacoma"), {"A": "Dune", "B": "Tacoma"})


def make(retriever=None, reward=None, **limits):
    return SearchEnv(
        questions=[QUESTION],
        retriever=retriever or Shelf(DUNE, HERBERT, TACOMA),
        reward=reward or {"exact_match": 1.0},
        limits=EnvLimits(**limits),
    )


def test_an_episode_from_question_to_answer():
    env = make()
    observation, info = env.reset(seed=0)
    assert (observation, info) == (QUESTION.text, {"question": QUESTION})
    assert env.episode == Episode(QUESTION)

    observation, reward, terminated, truncated, info = env.step("<search>Dune</search>")
    dune = "(Title: Dune) Dune is a novel by Frank Herbert."
    assert observation == f"<information>Doc 1{dune}</information>"
    assert (reward, terminated, truncated) == (0.0, False, False)
    first = info["step"]
    assert [hit.passage for hit in first.hits] == [DUNE]
    assert (first.action.kind, first.action.content) == (ActionKind.SEARCH, "Dune")
    assert (first.observation, first.reward, first.repeats) == (observation, 0.0, 0)

    # Both passages hold both words; equal scores are ordered by id, so p1 comes again, before p2.
    observation, _, _, _, info = env.step("<think>Who?</think><search>Frank Herbert</search>")
    assert observation == (
        f"<information>Doc 1{dune}\n"
        "Doc 2(Title: Frank Herbert) Frank Herbert was born in Tacoma.</information>"
    )
    assert info["step"].repeats == 1

    result = env.step("<answer>the Tacoma.</answer>")
    assert result[:4] == ("", 1.0, True, False)
    episode = env.episode
    assert episode.stop_reason is StopReason.ANSWERED
    assert (episode.answer, episode.reward, episode.num_searches) == ("the Tacoma.", 1.0, 2)
    assert episode.steps[0] == first
    assert episode.steps[2] == result[4]["step"]


def test_a_wrong_answer_ends_the_episode_too():
    env = make()
    env.reset()
    assert env.step("<answer>Seattle</answer>")[:4] == ("", 0.0, True, False)
    assert env.episode.stop_reason is StopReason.ANSWERED


def test_an_invalid_turn_costs_a_turn_and_gets_a_reminder():
    env = make(max_turns=3)
    env.reset()
    assert env.step("Tacoma, I guess.")[:4] == (REMINDER, 0.0, False, False)
    # The next turn is the last: the reminder does not offer another search.
    assert env.step("<answer>Tacoma")[0] == f"{INVALID}\n{LAST_TURN}"
    assert env.step("Tacoma!")[:4] == ("", 0.0, False, True)
    assert (env.episode.num_invalid, env.episode.stop_reason) == (3, StopReason.TURN_LIMIT)


def test_the_last_turn_is_for_the_answer():
    shelf = Shelf(DUNE, HERBERT, TACOMA)
    env = make(shelf, max_turns=2)
    env.reset()
    observation = env.step("<search>city</search>")[0]
    assert observation.endswith(f"</information>\n{LAST_TURN}")
    observation, reward, terminated, truncated, info = env.step("<search>novel</search>")
    assert (observation, reward, terminated, truncated) == ("", 0.0, False, True)
    assert shelf.queries == ["city"]
    assert info["step"].hits == ()
    assert (env.episode.num_searches, env.episode.answer) == (1, None)
    assert env.episode.stop_reason is StopReason.TURN_LIMIT


def test_an_answer_at_the_last_turn_counts():
    env = make(max_turns=1)
    assert env.reset()[0] == f"{QUESTION.text}\n{LAST_TURN}"
    assert env.step("<answer>Tacoma</answer>")[:4] == ("", 1.0, True, False)


def test_a_search_without_hits_is_a_search():
    env = make()
    env.reset()
    assert env.step("<search>zebra</search>")[0] == f"<information>{NO_RESULTS}</information>"
    assert env.episode.num_searches == 1


def test_options_are_part_of_the_question():
    env = make(reward={"choice": 1.0})
    observation, info = env.reset(options={"question": QUIZ})
    assert observation == "Which is a city?\nA) Dune\nB) Tacoma"
    assert info["question"] is QUIZ
    assert env.step("<answer>B</answer>")[1] == 1.0


def test_no_passage_comes_twice_in_one_observation_and_repeats_are_counted():
    copy = dataclasses.replace(DUNE, id="p9")
    env = make(Fixed(DUNE, DUNE, copy, HERBERT, TACOMA), top_k=2)
    env.reset()
    # Of p1, p1, its copy p9, p2, p3 the two best distinct ones are p1 and p2.
    _, _, _, _, info = env.step("<search>x</search>")
    assert [hit.passage.id for hit in info["step"].hits] == ["p1", "p2"]
    assert info["step"].repeats == 0
    assert env.step("<search>y</search>")[4]["step"].repeats == 2
    # A new episode has seen nothing.
    env.reset()
    assert env.step("<search>y</search>")[4]["step"].repeats == 0


def test_only_shown_hits_are_hits():
    long = Passage("p0", "Long", "Dune " * 100)
    env = make(Shelf(DUNE, long), max_observation_tokens=40)
    env.reset()
    observation, _, _, _, info = env.step("<search>Dune</search>")
    assert [hit.passage for hit in info["step"].hits] == [long]
    assert "Herbert" not in observation


def test_a_failed_search_is_raised_and_ends_the_episode():
    env = make(Down(), {"exact_match": 1.0, "format": 1.0})
    env.reset()
    env.step("hm")
    with pytest.raises(RetrievalError, match="no answer within 5 s"):
        env.step("<search>Dune</search>")
    episode = env.episode
    assert episode.stop_reason is StopReason.RETRIEVAL_ERROR
    assert [step.action.content for step in episode.steps] == ["no complete tag pair", "Dune"]
    assert episode.steps[1] == Step(episode.steps[1].action, (), "", 0.0)
    assert (episode.num_searches, episode.answer) == (0, None)
    with pytest.raises(ResetNeeded):
        env.step("<answer>Tacoma</answer>")
    env.reset()
    assert env.episode == Episode(QUESTION)


def test_an_engine_that_loses_count_has_failed():
    class Mute:
        def search(self, queries, k):
            return []

    env = make(Mute())
    env.reset()
    with pytest.raises(RetrievalError, match="0 result lists for one query"):
        env.step("<search>Dune</search>")
    assert env.episode.stop_reason is StopReason.RETRIEVAL_ERROR


def test_step_wants_a_running_episode():
    env = make()
    for use in (lambda: env.step("x"), lambda: env.episode):
        with pytest.raises(ResetNeeded, match="reset"):
            use()
    env.reset()
    env.step("<answer>x</answer>")
    with pytest.raises(ResetNeeded, match="has ended"):
        env.step("x")
    assert env.episode.stop_reason is StopReason.ANSWERED


def test_a_turn_that_is_no_string_is_refused_and_changes_nothing():
    env = make()
    env.reset()
    for action in (None, 3, b"<answer>x</answer>", ["x"]):
        with pytest.raises(InputError, match="give the turn's text"):
            env.step(action)
    assert env.episode == Episode(QUESTION)
    # What a vector environment may hand over is a string.
    assert env.step(np.str_("<answer>Tacoma</answer>"))[1] == 1.0


def test_rewards_are_a_weighted_sum_or_a_callable():
    env = make(reward={"exact_match": 2.0, "format": 0.25})
    env.reset()
    assert env.step("hm")[1] == -0.25
    assert env.step("<answer>Tacoma</answer>")[1] == 2.0
    assert env.episode.reward == 1.75

    # Called after every turn, that turn included, its own reward still 0.
    env = make(reward=lambda episode: len(episode.steps) + 10 * episode.reward)
    env.reset()
    assert [env.step("hm")[1], env.step("hm")[1]] == [1.0, 2 + 10 * 1.0]


def test_questions_are_drawn_uniformly_by_seed():
    questions = [Question(str(n), f"Question {n}?", ("x",)) for n in range(4)]
    env = SearchEnv(questions=questions, retriever=Shelf(), reward={"f1": 1.0})

    def draw(seed):
        first = env.reset(seed=seed)[0]
        return [first] + [env.reset()[0] for _ in range(399)]

    drawn = draw(5)
    assert drawn == draw(5)
    assert drawn != draw(6)
    # 400 draws, 100 expected each, standard deviation sqrt(400 * 1/4 * 3/4) = 8.7.
    counts = [drawn.count(question.text) for question in questions]
    assert all(65 < count < 135 for count in counts)


@pytest.mark.parametrize("options", [{"question": "Who?"}, {"questoin": QUIZ}, {"question": None}])
def test_reset_refuses_other_options(options):
    with pytest.raises(InputError, match=r"give \{'question': Question"):
        make().reset(options=options)


def test_construction_refuses_what_cannot_work():
    parts = {"questions": [QUESTION], "retriever": Shelf(), "reward": {"f1": 1.0}}
    for change, message in (
        ({"questions": []}, "questions: there are none"),
        ({"render_mode": "human"}, "unknown value 'human'; use 'ansi'"),
        ({"reward": {}}, "no term given"),
        ({"reward": {"bleu": 1.0}}, "unknown name 'bleu'"),
        ({"reward": {"f1": "high"}}, "weight of 'f1' is 'high'"),
        ({"reward": {"f1": float("nan")}}, "give a finite number"),
    ):
        with pytest.raises(InputError, match=message):
            SearchEnv(**{**parts, **change})


def test_render_is_a_transcript():
    env = SearchEnv(
        questions=[QUESTION],
        retriever=Shelf(DUNE),
        reward={"exact_match": 1.0},
        render_mode="ansi",
    )
    env.reset()
    env.step("<search>novel</search>")
    env.step("<answer>Tacoma</answer>")
    assert env.render() == (
        "Question: Where was the author of Dune born?\n"
        "\n[turn 1, reward 0]\n<search>novel</search>\n"
        "<information>Doc 1(Title: Dune) Dune is a novel by Frank Herbert.</information>\n"
        "\n[turn 2, reward 1]\n<answer>Tacoma</answer>\n"
        "\n[answered, total reward 1]"
    )


def test_render_without_a_mode_warns():
    env = make()
    env.reset()
    with pytest.warns(UserWarning, match="render_mode='ansi'"):
        assert env.render() is None


def play(env, turns, seed):
    """Every result of a sequence of turns, with a reset wherever an episode ends."""
    results = [env.reset(seed=seed)]
    for turn in turns:
        results.append(env.step(turn))
        if results[-1][2] or results[-1][3]:
            results.append(env.reset())
    return results


def test_ten_thousand_random_strings_never_raise_and_replay_identically():
    space = FreeText(seed=11)
    turns = [space.sample() for _ in range(10_000)]
    results = play(make(max_turns=4), turns, seed=3)
    assert results == play(make(max_turns=4), turns, seed=3)
    kinds = {result[4]["step"].action.kind for result in results if len(result) == 5}
    assert kinds == set(ActionKind)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(st.characters()), max_size=6))
def test_any_text_is_a_turn(turns):
    env = make(max_turns=9)
    env.reset()
    for turn in turns:
        observation, reward, terminated, truncated, info = env.step(turn)
        assert observation in env.observation_space
        assert info["step"].action.text == turn
        assert (reward, truncated) == (0.0, False)
        if terminated:
            break
