"""The contract of every reward term in `envs/rewards`; a new file is found by itself."""

import dataclasses
import math

import pytest

from envs.actions import parse
from envs.types import Episode, Question, Step, StopReason
from retrieval import plugins
from retrieval.types import Hit, Passage

NAMES = plugins.names("envs.rewards")
QUESTION = Question("q", "Which?", ("B", "Vell"), {"A": "Orm", "B": "Vell"}, ("T1",))
HIT = Hit(Passage("p", "T1", "text"), 1.0, 1)
SEARCH = Step(parse("<search>x</search>"), (HIT,), "<information>...</information>", 0.0)
IDLE = Step(parse("hm"), (), "Invalid action.", 0.0)
LATE = Step(parse("<search>x</search>"), (), "", 0.0)


def answered(text):
    return Episode(
        QUESTION,
        (SEARCH, Step(parse(f"<answer>{text}</answer>"), (), "", 0.0)),
        StopReason.ANSWERED,
    )


RUNNING = [Episode(QUESTION, (SEARCH,)), Episode(QUESTION, (IDLE, SEARCH))]
ENDED = [
    *(answered(text) for text in ("B", "A", "Vell", "", "x" * 10_000)),
    Episode(QUESTION, (SEARCH, LATE), StopReason.TURN_LIMIT),
    Episode(QUESTION, (IDLE,), StopReason.TURN_LIMIT),
]


def build(name):
    module = plugins.load("envs.rewards", name)
    return module.build(module.Config())


def test_the_folder_is_the_registry():
    assert {"choice", "evidence", "exact_match", "f1", "format"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
class TestReward:
    def test_the_file_has_a_docstring_and_a_frozen_config(self, name):
        module = plugins.load("envs.rewards", name)
        assert module.__doc__
        assert module.Config.__doc__
        assert module.Config.__dataclass_params__.frozen
        assert all(
            field.default is not dataclasses.MISSING
            or field.default_factory is not dataclasses.MISSING
            for field in dataclasses.fields(module.Config)
        )

    def test_values_are_finite_floats_within_1(self, name):
        reward = build(name)
        for episode in RUNNING + ENDED:
            value = reward(episode)
            assert isinstance(value, float)
            assert math.isfinite(value)
            assert -1 <= value <= 1

    def test_a_search_that_goes_well_is_neither_paid_nor_charged(self, name):
        for episode in RUNNING:
            assert build(name)(episode) == 0

    def test_it_keeps_no_state(self, name):
        reward = build(name)
        values = [reward(episode) for episode in RUNNING + ENDED]
        assert values == [reward(episode) for episode in RUNNING + ENDED]
        assert values[::-1] == [build(name)(episode) for episode in (RUNNING + ENDED)[::-1]]

    def test_the_right_answer_beats_no_answer(self, name):
        reward = build(name)
        assert reward(answered("B")) >= max(reward(episode) for episode in ENDED)
