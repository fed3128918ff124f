"""Fusion against a plain loop over all passages, on random answers."""

import random
from fractions import Fraction

import pytest

from retrieval.fusion import by_reciprocal_rank, by_weighted_score
from retrieval.types import Hit, Passage

PASSAGES = [Passage(f"p{number:02d}", "", str(number)) for number in range(30)]


def answer(*scored: tuple[str, float]) -> list[Hit]:
    return [Hit(Passage(i, "", i), score, rank) for rank, (i, score) in enumerate(scored, 1)]


def random_answer(rng: random.Random) -> list[Hit]:
    chosen = rng.sample(PASSAGES, rng.randint(0, len(PASSAGES)))
    # Few distinct values, so that ties are common; a whole answer may be equal.
    scores = sorted((rng.choice([-2.0, 0.5, 0.5, 3.0]) for _ in chosen), reverse=True)
    return [Hit(p, s, rank) for rank, (p, s) in enumerate(zip(chosen, scores, strict=True), 1)]


def test_reciprocal_ranks_by_hand():
    one = answer(("a", 9.0), ("b", 8.0))
    two = answer(("b", 0.2), ("c", 0.1))
    fused = by_reciprocal_rank([one, two], (1, 1), 3)
    # b: second and first, 1/62 + 1/61; a: first once, 1/61; c: second once, 1/62.
    assert [(hit.passage.id, hit.rank) for hit in fused] == [("b", 1), ("a", 2), ("c", 3)]
    assert [hit.score for hit in fused] == [1 / 62 + 1 / 61, 1 / 61, 1 / 62]


def test_weighted_scores_by_hand():
    one = answer(("a", 10.0), ("b", 5.0), ("c", 0.0))
    two = answer(("c", -1.0), ("d", -3.0))
    fused = by_weighted_score([one, two], (2, 1), 4)
    # Scaled, one is 1, 0.5, 0 and two is 1, 0: a 2*1, b 2*0.5, c 2*0 + 1*1, d 0. b and c tie.
    assert [(hit.passage.id, hit.score) for hit in fused] == [
        ("a", 2.0),
        ("b", 1.0),
        ("c", 1.0),
        ("d", 0.0),
    ]


@pytest.mark.parametrize("alone", [answer(("a", 5.0)), answer(("b", 5.0), ("a", 5.0))])
def test_equal_scores_are_all_best(alone):
    fused = by_weighted_score([alone, []], (1, 1), 9)
    assert {hit.score for hit in fused} == {1.0}
    assert [hit.passage.id for hit in fused] == sorted(hit.passage.id for hit in alone)


@pytest.mark.parametrize("seed", range(200))
def test_both_agree_with_a_plain_loop_in_exact_arithmetic(seed):
    rng = random.Random(seed)
    answers = [random_answer(rng) for _ in range(rng.randint(2, 5))]
    weights = [rng.choice([1, 2, 3]) for _ in answers]
    k = rng.randint(1, 40)

    def rank_sum(passage: Passage) -> Fraction:
        return sum(
            Fraction(weight, 60 + hit.rank)
            for weight, hits in zip(weights, answers, strict=True)
            for hit in hits
            if hit.passage == passage
        )

    def score_sum(passage: Passage) -> Fraction:
        total = Fraction(0)
        for weight, hits in zip(weights, answers, strict=True):
            values = [Fraction(hit.score) for hit in hits]
            for hit, value in zip(hits, values, strict=True):
                if hit.passage == passage:
                    spread = max(values) - min(values)
                    total += weight * ((value - min(values)) / spread if spread else Fraction(1))
        return total

    found = [p for p in PASSAGES if any(hit.passage == p for hits in answers for hit in hits)]
    for fuse, total in ((by_reciprocal_rank, rank_sum), (by_weighted_score, score_sum)):
        fused = fuse(answers, weights, k)
        expected = sorted(found, key=lambda p: (-total(p), p.id))[:k]
        assert [hit.score for hit in fused] == pytest.approx([float(total(p)) for p in expected])
        assert [hit.rank for hit in fused] == list(range(1, len(expected) + 1))
        if fuse is by_reciprocal_rank:
            # The quotients' own rounding could part sums that are equal on paper; it does not here.
            assert [hit.passage for hit in fused] == expected


def test_the_order_of_the_engines_does_not_matter():
    rng = random.Random(7)
    for _ in range(100):
        answers = [random_answer(rng) for _ in range(4)]
        for fuse in (by_reciprocal_rank, by_weighted_score):
            assert fuse(answers, (1,) * 4, 30) == fuse(answers[::-1], (1,) * 4, 30)
