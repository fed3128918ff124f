"""The bootstrap: cases whose distribution is known, a plain-loop oracle, coverage."""

import math

import numpy as np
import pytest

from agents.statistics import RESAMPLES, bootstrap, paired_bootstrap


def test_one_value_is_all_that_can_be_drawn() -> None:
    assert bootstrap([0.25]) == {"mean": 0.25, "low": 0.25, "high": 0.25}


def test_equal_values_leave_no_doubt() -> None:
    assert bootstrap([1.0] * 37) == {"mean": 1.0, "low": 1.0, "high": 1.0}


def test_two_binary_values() -> None:
    # The mean of two draws is 0, 1/2, 1 with 1/4, 1/2, 1/4: both tails hold more than 2.5 %.
    assert bootstrap([0, 1]) == {"mean": 0.5, "low": 0.0, "high": 1.0}


def test_one_success_in_eight() -> None:
    # The successes of a resample are Binomial(8, 1/8): P(0) = 0.344 > 0.025, so low is 0;
    # P(<= 2) = 0.933 < 0.975 < 0.989 = P(<= 3), so high is 3/8.
    assert bootstrap([0, 0, 0, 1, 0, 0, 0, 0]) == {"mean": 0.125, "low": 0.0, "high": 0.375}


def test_sixty_successes_in_a_hundred() -> None:
    # Binomial(100, 0.6): P(<= 49) = 0.0168 < 0.025 < 0.0271 = P(<= 50) and
    # P(<= 68) = 0.9602 < 0.975 < 0.9752 = P(<= 69): close enough for 10,000 draws to miss by one.
    interval = bootstrap([1] * 60 + [0] * 40)
    assert interval["mean"] == 0.6
    assert interval["low"] in (pytest.approx(0.50), pytest.approx(0.51))
    assert interval["high"] in (pytest.approx(0.69), pytest.approx(0.70))


def percentile(values: list[float], share: float) -> float:
    """Linear interpolation between order statistics (Hyndman and Fan's definition 7)."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * share
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


@pytest.mark.parametrize(("count", "seed"), [(3, 0), (7, 1), (20, 5)])
def test_against_plain_loops(count: int, seed: int) -> None:
    values = np.random.default_rng(100 + seed).normal(size=count).tolist()
    random = np.random.default_rng(seed)
    means = []
    for _ in range(RESAMPLES):
        total = 0.0
        for index in random.integers(count, size=count):
            total += values[index]
        means.append(total / count)
    interval = bootstrap(values, seed)
    assert interval["mean"] == pytest.approx(sum(values) / count, rel=1e-12)
    assert interval["low"] == pytest.approx(percentile(means, 0.025), rel=1e-9)
    assert interval["high"] == pytest.approx(percentile(means, 0.975), rel=1e-9)


def test_the_same_seed_gives_the_same_interval_and_another_does_not() -> None:
    values = np.random.default_rng(0).normal(size=30).tolist()
    assert bootstrap(values, 3) == bootstrap(values, 3)
    assert bootstrap(values, 3) != bootstrap(values, 4)


def test_scaling_and_shifting_the_values_does_so_to_the_interval() -> None:
    values = np.random.default_rng(2).normal(size=25)
    plain, moved = bootstrap(values.tolist()), bootstrap((3 * values - 7).tolist())
    assert moved == {key: pytest.approx(3 * plain[key] - 7) for key in plain}


def test_many_normal_values_give_the_normal_interval() -> None:
    values = np.random.default_rng(4).normal(size=900)
    interval = bootstrap(values.tolist())
    half = 1.96 * values.std() / 30
    assert interval["mean"] - interval["low"] == pytest.approx(half, rel=0.05)
    assert interval["high"] - interval["mean"] == pytest.approx(half, rel=0.05)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    # 120 samples of 40 normal values: a percentile interval of 40 covers 94 % or so; 120 * 0.94
    # = 113 with a standard deviation of 2.6, so 104 is more than three of them below.
    random = np.random.default_rng(11)
    covered = 0
    for _ in range(120):
        interval = bootstrap(random.normal(loc=1.0, size=40).tolist())
        covered += interval["low"] <= 1.0 <= interval["high"]
    assert 104 <= covered < 120


def test_paired_is_the_bootstrap_of_the_differences() -> None:
    random = np.random.default_rng(6)
    before = random.integers(2, size=50).astype(float)
    after = random.integers(2, size=50).astype(float)
    differences = [a - b for a, b in zip(after, before, strict=True)]
    assert paired_bootstrap(after.tolist(), before.tolist(), 9) == bootstrap(differences, 9)


def test_what_both_find_hard_cancels() -> None:
    # Each question is answered as before: no doubt at all, though both scores are uncertain.
    scores = [1.0, 0.0, 1.0, 1.0, 0.0]
    assert paired_bootstrap(scores, scores) == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert bootstrap(scores)["low"] < bootstrap(scores)["high"]


def test_two_questions_one_of_them_gained() -> None:
    assert paired_bootstrap([1, 1], [0, 1]) == {"mean": 0.5, "low": 0.0, "high": 1.0}


def test_no_values_are_an_error() -> None:
    for call in (lambda: bootstrap([]), lambda: paired_bootstrap([], [])):
        with pytest.raises(ValueError, match="bootstrap: no values"):
            call()


@pytest.mark.parametrize(("after", "before"), [([1, 0, 1], [1, 0]), ([1, 0], [1]), ([1], [0, 1])])
def test_results_of_different_questions_are_an_error(after: list[int], before: list[int]) -> None:
    # numpy would stretch a single value over all the others.
    with pytest.raises(ValueError, match="argument 2 is"):
        paired_bootstrap(after, before)
