"""Alarms: exact numbers on both sides of every threshold."""

import math
from typing import Any

import pytest

from agents.guard import Alarm, GuardOptions, alarms
from retrieval.errors import InputError

CALM: dict[str, float | None] = {
    "policy_loss": 0.1,
    "value_loss": None,
    "skipped_steps": 0,
    "nonfinite_weights": 0,
    "ratio_tail": 0.0,
    "kl_old": 0.01,
    "entropy": 1.0,
    "repeat_rate": 0.1,
    "invalid_rate": 0.0,
    "searches_mean": 1.0,
    "reward_mean": 0.5,
}


def history(*lines: dict[str, float | None]) -> list[dict[str, float | None]]:
    return [CALM | line for line in lines]


def series(name: str, *values: float | None) -> list[dict[str, float | None]]:
    return history(*({name: value} for value in values))


def rung(lines: list[dict[str, float | None]], **options: Any) -> list[Alarm]:
    return alarms(lines, GuardOptions(**options))


def test_by_default_only_what_is_not_finite_rings() -> None:
    wild = {"kl_old": 1e9, "ratio_tail": 1.0, "entropy": 0.0, "repeat_rate": 1.0}
    wild |= {"invalid_rate": 1.0, "searches_mean": 99.0, "reward_mean": -99.0}
    assert rung(history(*[{}] * 20, *[wild] * 20)) == []
    assert rung(history({"skipped_steps": 1})) == [Alarm("skipped_steps", 1, 0)]
    assert rung(history({"nonfinite_weights": 2})) == [Alarm("nonfinite_weights", 2, 0)]
    for value in (math.nan, math.inf):
        for name in ("policy_loss", "value_loss"):
            (alarm,) = rung(history({name: value}))
            assert (alarm.kind, str(alarm)) == (name, f"{name} is {value}")


def test_nothing_rings_where_nothing_is_watched() -> None:
    worst = history({"skipped_steps": 9, "nonfinite_weights": 9, "policy_loss": math.nan})
    assert rung(worst, enabled=False, kl_old=0.0, reward_drop=0.0) == []


def test_skipped_steps_may_be_allowed_with_the_averages_they_spoil() -> None:
    spoilt = {"policy_loss": math.nan, "kl_old": math.nan, "entropy": math.nan}
    lines = history({"skipped_steps": 2, **spoilt})
    assert rung(lines, skipped_steps=2, kl_old=0.0, window=1, entropy_low=9.0) == []
    assert [alarm.kind for alarm in rung(lines, skipped_steps=1)] == ["skipped_steps"]
    assert rung(lines, skipped_steps=None) == []
    # Weights that are not numbers ring whatever is allowed.
    assert len(rung(history({"nonfinite_weights": 1}), skipped_steps=None)) == 1


@pytest.mark.parametrize("name", ["ratio_tail", "kl_old"])
def test_an_update_is_judged_by_itself(name: str) -> None:
    assert rung(series(name, 0.0, 0.25), **{name: 0.25}) == []
    assert rung(series(name, 0.0, 0.26), **{name: 0.25}) == [Alarm(name, 0.26, 0.25)]
    assert rung(series(name, 0.26, 0.0), **{name: 0.25}) == []
    assert rung(series(name, None), **{name: 0.25}) == []
    assert rung(series(name, math.nan), **{name: 0.25}) == []  # no row was trained
    assert len(rung(series(name, math.inf), **{name: 0.25})) == 1


@pytest.mark.parametrize("name", ["repeat_rate", "invalid_rate"])
def test_rates_are_averaged(name: str) -> None:
    options = {name: 0.5, "window": 3}
    assert rung(series(name, 1.0, 1.0), **options) == []  # too few to say
    # (0.2 + 0.3 + 1.0) / 3 = 0.5; with 1.0 + 0.3 + 1.0 it is 2.3 / 3
    assert rung(series(name, 1.0, 0.2, 0.3, 1.0), **options) == []
    (alarm,) = rung(series(name, 0.0, 1.0, 0.3, 1.0), **options)
    assert alarm.kind == name and alarm.value == pytest.approx(2.3 / 3)
    # Of what was measured: (0.4 + 0.7) / 2.
    (alarm,) = rung(series(name, 0.4, None, 0.7), **options)
    assert alarm.value == pytest.approx(0.55)


def test_entropy_has_two_bounds() -> None:
    options = {"entropy_low": 0.5, "entropy_high": 2.0, "window": 2}
    assert rung(series("entropy", 0.4, 0.6), **options) == []
    assert rung(series("entropy", 1.0, 3.0), **options) == []
    (low,) = rung(series("entropy", 0.4, 0.5), **options)
    assert low.kind == "entropy_low" and low.value == pytest.approx(0.45)
    assert str(low) == "entropy_low is 0.45, below 0.5"
    (high,) = rung(series("entropy", 2.0, 3.0), **options)
    assert str(high) == "entropy_high is 2.5, above 2"


def test_searches_drift_in_either_direction() -> None:
    options = {"searches_drift": 0.5, "window": 2}
    assert rung(series("searches_mean", 9.0, 0.0, 0.0), **options) == []  # too few to say
    # From (1 + 2) / 2 to (2 + 2) / 2: 0.5.
    assert rung(series("searches_mean", 9.0, 1.0, 2.0, 2.0, 2.0), **options) == []
    # From 1.5 to 2.5, and from 1.5 to 0.5.
    for late in ((2.0, 3.0), (1.0, 0.0)):
        (alarm,) = rung(series("searches_mean", 1.0, 2.0, *late), **options)
        assert alarm == Alarm("searches_drift", 1.0, 0.5)


def test_a_reward_that_falls_from_its_best() -> None:
    options = {"reward_drop": 0.3, "window": 2}
    assert rung(series("reward_mean", 1.0), **options) == []
    # Means of two: 0.5, 0.7, 0.5, 0.4: best - last = 0.3. One more of 0.2: 0.7 - 0.3.
    lines = (0.4, 0.6, 0.8, 0.2, 0.6)
    assert rung(series("reward_mean", *lines), **(options | {"reward_drop": 0.31})) == []
    (alarm,) = rung(series("reward_mean", *lines, 0.0), **options)
    assert alarm.kind == "reward_drop" and alarm.value == pytest.approx(0.4)
    assert rung(series("reward_mean", -1.0, -0.5, 0.0, 0.5), **options) == []  # it rises


def test_the_gravest_comes_first() -> None:
    lines = history({"kl_old": 9.0, "skipped_steps": 1, "nonfinite_weights": 1, "ratio_tail": 0.9})
    kinds = [alarm.kind for alarm in rung(lines, kl_old=1.0, ratio_tail=0.5)]
    assert kinds == ["nonfinite_weights", "skipped_steps", "ratio_tail", "kl_old"]


REFUSED = {
    "lr_factor": [0.0, 1.5, math.nan],
    "kl_factor": [0.5, math.inf],
    "window": [0],
    "max_rollbacks": [-1],
    "skipped_steps": [-1],
    "ratio_tail": [-0.1, 1.1],
    "repeat_rate": [2.0],
    "invalid_rate": [2.0],
    "kl_old": [-1.0, math.inf],
    "entropy_low": [-1.0],
    "entropy_high": [math.nan],
    "searches_drift": [-1.0],
    "reward_drop": [-1.0],
}


@pytest.mark.parametrize(("name", "values"), REFUSED.items())
def test_impossible_options_are_refused(name: str, values: list[float]) -> None:
    for value in values:
        with pytest.raises(InputError, match=f"^{name} is {value}; give"):
            GuardOptions(**{name: value})
