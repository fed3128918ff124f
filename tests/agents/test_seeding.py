"""Seeds and question order depend on the run's seed, a purpose and a place; on nothing else."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from agents.seeding import Draw, derive, question_index

SEEDS = st.integers(0, 2**64 - 1)
PLACES = st.integers(0, 2**32 - 1)


def test_a_seed_is_the_same_for_ever() -> None:
    """Numbers written down: a change here changes every published run."""
    assert derive(0, Draw.SAMPLING, 1) == 5118172827221114505
    assert derive(1, Draw.SAMPLING, 1) == 6388545626237509919


@given(
    a=st.tuples(SEEDS, st.sampled_from(Draw), PLACES),
    b=st.tuples(SEEDS, st.sampled_from(Draw), PLACES),
)
def test_different_places_have_different_seeds(a, b) -> None:
    assert (derive(*a) == derive(*b)) == (a == b)


def test_a_long_seed_does_not_run_into_the_purpose() -> None:
    """2 * 2^32 + 1 is the words [1, 2]; SAMPLING is 2."""
    assert derive(1 + (2 << 32), Draw.ADAPTER) != derive(1, Draw.SAMPLING, 0)


@given(seed=st.integers(-(2**70), 2**70), step=st.integers(0, 10**6))
def test_any_integer_is_a_seed_and_gives_63_bits(seed, step) -> None:
    assert 0 <= derive(seed, Draw.SAMPLING, step) < 2**63


def test_no_two_purposes_and_steps_of_a_run_share_a_seed() -> None:
    seeds = [derive(7, purpose, step) for purpose in Draw for step in range(1000)]
    assert len(set(seeds)) == len(seeds)


@given(seed=SEEDS, total=st.integers(1, 40), epoch=st.integers(0, 5))
def test_an_epoch_is_a_permutation(seed, total, epoch) -> None:
    draws = range(epoch * total, (epoch + 1) * total)
    assert sorted(question_index(draw, total, seed) for draw in draws) == list(range(total))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    def order(epoch: int, seed: int) -> tuple[int, ...]:
        return tuple(question_index(50 * epoch + i, 50, seed) for i in range(50))

    orders = [order(epoch, seed) for epoch in range(4) for seed in range(4)]
    assert len(set(orders)) == 16
    assert tuple(range(50)) not in orders


def test_every_question_comes_equally_early() -> None:
    """First of 5 in 1,000 epochs: 200 expected, binomial sd 12.6; within 5 sd."""
    first = Counter(question_index(5 * epoch, 5, 0) for epoch in range(1000))
    assert set(first) == set(range(5))
    assert all(abs(count - 200) < 64 for count in first.values())


@given(draws=st.lists(st.integers(0, 200), max_size=10))
def test_a_draw_does_not_depend_on_those_before_it(draws) -> None:
    alone = [question_index(draw, 17, 3) for draw in draws]
    after = [question_index(draw, 17, 3) for draw in reversed(draws)]
    assert alone == after[::-1]
