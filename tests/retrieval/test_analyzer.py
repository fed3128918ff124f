from concurrent.futures import ThreadPoolExecutor

import pytest
import Stemmer
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.analyzer import STOP_WORDS, Analyzer

WORDS = Analyzer(stopwords=False, stemming=False)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("?! \n \u2014", []),
        ("Marie CURIE, 1867", ["marie", "curie", "1867"]),
        ("vitamin C and E", ["vitamin", "c", "and", "e"]),  # one letter is a word
        ("Bohr's atom, Bohr\u2019s, boss", ["bohr", "atom", "bohr", "boss"]),
        ("O'Brien don't 's-Hertogenbosch", ["o", "brien", "don", "t", "hertogenbosch"]),
        ("Žižkov Москва straße", ["žižkov", "москва", "straße"]),
        ("I\u0307zmir \u0130zmir", ["izmir", "izmir"]),
        ("cafe\u0301 caf\u00e9", ["caf\u00e9", "caf\u00e9"]),  # NFKC composes
        ("\ufb01nal \uff21\uff22", ["final", "ab"]),  # and unfolds ligatures and wide letters
    ],
)
def test_words(text, terms):
    assert WORDS.terms(text) == terms


def test_stop_words_go_before_stemming_and_repeats_stay():
    text = "These cells, and the cells' nuclei: this is it"
    assert Analyzer(stopwords=True, stemming=False).terms(text) == ["cells", "cells", "nuclei"]
    assert Analyzer(stopwords=True, stemming=True).terms(text) == ["cell", "cell", "nuclei"]


def test_stop_words_stay_where_they_are_wanted():
    assert Analyzer(stopwords=False, stemming=True).terms("To BE") == ["to", "be"]


def test_there_are_lucenes_33_stop_words():
    assert len(STOP_WORDS) == 33


def test_stems_are_snowballs():
    # The examples of https://snowballstem.org/algorithms/english/stemmer.html
    words = "consign consigned consigning consignment knack knackeries knights generously"
    stems = "consign consign consign consign knack knackeri knight generous"
    assert Analyzer().terms(words) == stems.split()


def test_threads_stem_alike():
    words = [f"{stem}{ending}" for stem in ("walk", "talk", "hop") for ending in ("ing", "ed", "s")]
    texts = [" ".join(f"{word} {word}{number}s" for word in words) for number in range(200)]
    stemmer = Stemmer.Stemmer("english")
    expected = [stemmer.stemWords(text.split()) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(Analyzer().terms, texts)) == expected


@settings(max_examples=100, deadline=None, derandomize=True)
@given(text=st.text(max_size=60))
def test_terms_are_words_of_the_text_and_lower_case(text):
    for term in WORDS.terms(text):
        assert term
        assert term == term.strip()
        assert WORDS.terms(term) == [term] or term == "s"
