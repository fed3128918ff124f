"""Samplers: what they draw, what they keep, and that a resumed run draws the same."""

import json

import pytest

from agents.sampling import dynamic, uniform, vade
from agents.seeding import question_index
from retrieval import plugins
from retrieval.errors import InputError

NAMES = plugins.names("agents.sampling")
RETURNS = [[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], []]


def build(name: str, total: int = 20, seed: int = 3):
    module = plugins.load("agents.sampling", name)
    return module.build(module.Config(), total, seed)


@pytest.mark.parametrize("name", NAMES)
def test_every_sampler_draws_known_questions_and_goes_on_after_json(name) -> None:
    sampler = build(name)
    drawn = []
    for step in (1, 2, 3, 4):
        if step == 3:
            resumed = build(name)
            resumed.load_state(json.loads(json.dumps(sampler.state())))
        indices = sampler.draw(4, step)
        assert len(indices) == 4 and all(0 <= i < 20 for i in indices)
        kept = sampler.observe(indices, RETURNS)
        assert len(kept) == 4 and kept[0]
        drawn.append(indices)
        if step >= 3:
            assert resumed.draw(4, step) == indices
            assert resumed.observe(indices, RETURNS) == kept
    assert len({tuple(indices) for indices in drawn}) == 4
    again = build(name)
    assert again.draw(4, 1) == drawn[0] != build(name, seed=4).draw(4, 1)
    assert sampler.rounds >= 1


@pytest.mark.parametrize("name", NAMES)
def test_a_step_may_want_more_questions_than_there_are(name) -> None:
    assert sorted(build(name, total=2).draw(4, 1)) == [0, 0, 1, 1]


def test_uniform_and_dynamic_walk_through_shuffled_passes() -> None:
    passes = [question_index(i, 20, 3) for i in range(40)]
    sampler = build("uniform")
    assert [i for step in range(1, 11) for i in sampler.draw(4, step)] == passes
    sampler = build("dynamic")
    # Rounds of one step go on where the round before ended.
    assert sampler.draw(4, 1) + sampler.draw(2, 1) + sampler.draw(4, 2) == passes[:10]


def test_dynamic_keeps_groups_whose_returns_differ() -> None:
    sampler = dynamic.build(dynamic.Config(rounds=5), 20, 3)
    assert sampler.observe([0, 1, 2, 3], RETURNS) == [True, False, False, False]
    assert sampler.rounds == 5
    assert uniform.build(uniform.Config(), 20, 3).observe([0, 1, 2, 3], RETURNS) == [True] * 4


def test_vade_prefers_questions_of_uncertain_success() -> None:
    """Ten questions: always right, always wrong, or half; 40 samples each, no decay."""
    sampler = vade.build(vade.Config(decay=1.0), 9, 3)
    for question in range(9):
        won = (0, 40, 20)[question % 3]
        sampler.observe([question], [[1.0] * won + [0.0] * (40 - won)])
    # p (1 - p) is 0.25 at a half and at most 0.07 at 1/42 or 41/42 within 2 sd.
    assert all(set(sampler.draw(3, step)) == {2, 5, 8} for step in range(1, 20))


def test_vade_forgets() -> None:
    """Half the counts stay per step: after 60 steps 40 samples weigh 40 / 2^60."""
    sampler = vade.build(vade.Config(decay=0.5), 2, 3)
    sampler.observe([0], [[1.0] * 40])
    for step in range(1, 61):
        sampler.draw(1, step)
    ((question, won, lost),) = sampler.state()["counts"]
    assert question == 0 and lost == 0.0
    assert won == pytest.approx(40 / 2**60)


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (dynamic.Config, {"rounds": 0}, "rounds is 0; give at least 1"),
        (vade.Config, {"decay": 1.5}, "decay is 1.5; give a share"),
        (vade.Config, {"prior": 0.0}, "prior is 0.0; give more than 0"),
    ],
)
def test_settings_out_of_range_are_refused(config, options, message) -> None:
    with pytest.raises(InputError, match=message):
        config(**options)
