"""Bootstrap and permutation test: known distributions, plain-loop oracles, coverage and level."""

import math
from itertools import product

import numpy as np
import pytest

from agents.statistics import RESAMPLES, bootstrap, paired_bootstrap, paired_permutation


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


TRIALS = 2_000


@pytest.mark.parametrize(
    ("mean", "draw"),
    [
        pytest.param(1.0, lambda random: random.exponential(size=200), id="skewed"),
        pytest.param(0.3, lambda random: (random.random(200) < 0.3) * 1.0, id="Bernoulli"),
    ],
)
def test_a_95_percent_interval_covers_the_mean_in_93_to_97_percent(mean: float, draw) -> None:
    # Of 2,000 trials at 95 %, 1,900 cover, give or take 10.
    random = np.random.default_rng(20)
    intervals = [bootstrap(draw(random), seed, resamples=500) for seed in range(TRIALS)]
    covered = sum(i["low"] <= mean <= i["high"] for i in intervals)
    assert 0.93 * TRIALS <= covered <= 0.97 * TRIALS


class TestPairedPermutation:
    def test_all_better_by_the_same(self) -> None:
        # Of 2^5 patterns only the two without a change of sign are as far from 0.
        assert paired_permutation([1] * 5, [0] * 5) == 2 / 32

    def test_three_won_and_one_lost(self) -> None:
        # McNemar's exact test: 2 * P(Binomial(4, 1/2) >= 3) = 2 * 5/16; the ties do not matter.
        after, before = [1, 1, 1, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 0]
        assert paired_permutation(after, before) == 10 / 16
        assert paired_permutation(after * 3, before * 3) == pytest.approx(
            2 * sum(math.comb(12, k) for k in range(9, 13)) / 2**12
        )

    def test_no_difference_at_all(self) -> None:
        assert paired_permutation([0.5, 1], [0.5, 1]) == 1

    @pytest.mark.parametrize("seed", range(5))
    def test_exact_is_brute_force(self, seed: int) -> None:
        differences = np.random.default_rng(seed).normal(0.4, size=8).tolist()
        observed = abs(sum(differences))
        patterns = list(product((1, -1), repeat=8))
        extreme = sum(
            abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= observed - 1e-12
            for signs in patterns
        )
        assert paired_permutation(differences, [0.0] * 8) == extreme / 256

    def test_sums_that_are_equal_on_paper_count(self) -> None:
        # 0.1 + 0.2 is not 0.3 in binary: both patterns with 0 mean, and all others, are as extreme.
        assert paired_permutation([0.1, 0.2, -0.3], [0, 0, 0]) == 1

    def test_drawn_patterns_approach_the_exact_share(self) -> None:
        # 13 won, 5 lost: 2 * P(Binomial(18, 1/2) >= 13) = 0.09625; 10,000 draws miss it by 0.003.
        exact = 2 * sum(math.comb(18, k) for k in range(13, 19)) / 2**18
        after, before = [1] * 13 + [0] * 5 + [1] * 9, [0] * 13 + [1] * 5 + [1] * 9
        assert paired_permutation(after, before) == pytest.approx(exact, abs=0.009)
        assert paired_permutation(before, after) == paired_permutation(after, before)

    def test_the_least_p_value_of_drawn_patterns_is_not_0(self) -> None:
        # Of 2^40 patterns two are as extreme: 600 draws meet none of them.
        assert paired_permutation([1] * 40, [0] * 40, resamples=600) == 1 / 601

    def test_it_holds_its_level_and_has_power(self) -> None:
        # Under the null 100 of 2,000 are rejected, standard deviation 9.7: four of them each way.
        # A shift of 0.4 standard deviations at n = 50 is 2.83 standard errors: a z-test rejects
        # with P(Z > 1.96 - 2.83) = 0.81.
        random = np.random.default_rng(21)
        rejected = {0.0: 0, 0.4: 0}
        for seed in range(TRIALS):
            noise = random.standard_t(5, size=50) / math.sqrt(5 / 3)
            for shift in rejected:
                p = paired_permutation(noise + shift, np.zeros(50), seed, resamples=199)
                rejected[shift] += p <= 0.05
        assert abs(rejected[0.0] - 100) <= 39
        assert 0.75 * TRIALS <= rejected[0.4] <= 0.9 * TRIALS

    def test_few_binary_results_are_judged_with_caution(self) -> None:
        # The exact test of discrete data rejects at most as often as it says.
        random = np.random.default_rng(22)
        rejected = 0
        for _ in range(TRIALS):
            after, before = random.integers(2, size=(2, 20))
            rejected += paired_permutation(after.tolist(), before.tolist()) <= 0.05
        assert 0 < rejected <= 100 + 29

    def test_the_seed_decides(self) -> None:
        values = np.random.default_rng(0).normal(0.2, size=40).tolist()
        zeros = [0.0] * 40
        assert paired_permutation(values, zeros, 3) == paired_permutation(values, zeros, 3)
        assert paired_permutation(values, zeros, 3) != paired_permutation(values, zeros, 4)

    def test_errors(self) -> None:
        with pytest.raises(ValueError, match="paired_permutation: no values"):
            paired_permutation([], [])
        with pytest.raises(ValueError, match="argument 2 is"):
            paired_permutation([1], [1, 0])
