"""Fictional names: pronounceable words made of syllables, none given twice."""

import random
from collections.abc import Sequence
from pathlib import Path

ONSETS = (*"bdfghklmnprstvz", "br", "tr")
RHYMES = tuple(vowel + coda for vowel in "aeiou" for coda in ("", "", "", "l", "n", "r"))
_OPEN = ("a", "o", "i", "u")  # no "e": it makes English words such as "more", often stop words
_CLOSED = ("an", "ar", "as", "el", "en", "ek", "in", "im", "ir", "on", "or", "um", "us", "ath")
ENDS = _OPEN + _CLOSED
# Two syllables give 100,000 words; past this many it takes long to find an unused one.
TWO_SYLLABLE_WORDS = 40_000

# Words that the syllables can make and that mean something: people, places, drugs, plain English.
BLOCKED = frozenset(Path(__file__).with_name("blocked_names.txt").read_text("utf-8").split())


class Namer:
    """Draws words for one side of a world.

    Args:
        rng: The only source of chance.
        used: Lower-case words that are taken; grows, and is shared by the sides of a world so
            that they have no word in common.
        near: Share of words that differ from an earlier one of this side in the last syllable only.
    """

    def __init__(self, rng: random.Random, used: set[str], near: float = 0.2) -> None:
        self._rng = rng
        self._used = used
        self._near = near
        self._stems: list[str] = []

    def word(self, endings: Sequence[str] = ENDS) -> str:
        """A new capitalised word; `endings` mark a sort of thing, such as drugs."""
        while True:
            word = self._stem() + self._rng.choice(ONSETS) + self._rng.choice(endings)
            if word not in self._used and word not in BLOCKED:
                break
        self._used.add(word)
        return word.capitalize()

    def words(self, count: int, endings: Sequence[str] = ENDS) -> list[str]:
        """Several new words."""
        return [self.word(endings) for _ in range(count)]

    def pairs(
        self, count: int, left: Sequence[str], right: Sequence[str], pattern: str = "{0} {1}"
    ) -> list[str]:
        """Distinct names of two words; either may recur, which makes near-duplicates.

        Raises:
            ValueError: Fewer than two combinations per name, so that drawing would take long.
        """
        if 2 * count > len(left) * len(right):
            raise ValueError(f"{count} names of {len(left)} x {len(right)} words")
        names: dict[str, None] = {}
        while len(names) < count:
            names[pattern.format(self._rng.choice(left), self._rng.choice(right))] = None
        return list(names)

    def titled(self, count: int, nouns: Sequence[str], pattern: str = "{0} {1}") -> list[str]:
        """Distinct names of a new word and one of the nouns; two share a word on average."""
        return self.pairs(count, self.words(count // 2 + 1), nouns, pattern)

    def _stem(self) -> str:
        """All but the last syllable, new or of an earlier word."""
        if self._stems and self._rng.random() < self._near:
            return self._rng.choice(self._stems)
        count = 1 if len(self._used) < TWO_SYLLABLE_WORDS else 2
        draw = self._rng.choice
        stem = "".join(draw(ONSETS) + draw(RHYMES) for _ in range(count))
        self._stems.append(stem)
        return stem
