import random
import re

import pytest

from envs.worlds.atlas.relations import RELATIONS as ATLAS
from envs.worlds.atlas.sentences import SENTENCES as ATLAS_SENTENCES
from envs.worlds.formulary.relations import RELATIONS as FORMULARY
from envs.worlds.formulary.sentences import SENTENCES as FORMULARY_SENTENCES
from envs.worlds.names import BLOCKED, Namer


def make(count: int, near: float = 0.2, used: set[str] | None = None) -> list[str]:
    return Namer(random.Random("names"), set() if used is None else used, near).words(count)


def test_words_are_unique_short_and_pronounceable() -> None:
    words = make(5_000)
    assert len(set(words)) == 5_000
    for word in words:
        assert re.fullmatch("[A-Z][a-z]{3,8}", word)
        assert not re.search("[^aeiou]{4}", word.lower())


def test_large_worlds_get_longer_words_and_stay_unique() -> None:
    words = make(60_000)
    assert len(set(words)) == 60_000
    assert max(map(len, words)) > max(map(len, words[:1_000]))


def test_some_words_differ_in_the_last_syllable_only() -> None:
    def shared_beginnings(words: list[str]) -> int:
        return len(words) - len({word[:-2] for word in words})

    assert shared_beginnings(make(400, near=0.5)) > 2 * shared_beginnings(make(400, near=0.0))


def test_two_sides_share_no_word() -> None:
    used: set[str] = set()
    assert not set(make(2_000, used=used)) & set(make(2_000, used=used))


def test_no_blocked_word_and_no_word_of_the_sentences_is_a_name() -> None:
    relations = str([*ATLAS, *FORMULARY])
    sentences = str([ATLAS_SENTENCES, FORMULARY_SENTENCES])
    english = set(re.findall("[a-z]+", (relations + sentences).lower()))
    names = {word.lower() for word in make(60_000)}
    assert not names & BLOCKED
    assert not names & english


def test_pairs_are_distinct_and_never_drawn_from_too_few() -> None:
    namer = Namer(random.Random(0), set())
    names = namer.pairs(20, list("abcde"), list("stuvwxyz"))
    assert len(set(names)) == 20
    with pytest.raises(ValueError, match="9 names of 4 x 4 words"):
        namer.pairs(9, list("abcd"), list("wxyz"))
