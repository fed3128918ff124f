import math

import pytest

from retrieval.analyzer import Analyzer
from retrieval.bm25 import Numbers, check_parameters, index_terms, number_terms
from retrieval.corpus import Corpus
from retrieval.errors import InputError
from retrieval.types import Passage


@pytest.mark.parametrize(("k1", "b"), [(0, 0), (0.9, 0.4), (100, 1)])
def test_parameters_within_range(k1, b):
    check_parameters(k1, b, "english")


@pytest.mark.parametrize(
    ("k1", "b", "culprit"),
    [
        (-0.1, 0.4, "k1 is -0.1"),
        (math.inf, 0.4, "k1 is inf"),
        (math.nan, 0.4, "k1 is nan"),
        (0.9, 1.1, "b is 1.1"),
        (0.9, math.nan, "b is nan"),
    ],
)
def test_parameters_out_of_range(k1, b, culprit):
    with pytest.raises(InputError, match=culprit):
        check_parameters(k1, b, "english")


def test_an_unknown_analyzer_is_refused():
    with pytest.raises(
        InputError, match="analyzer is 'french'; choose one of english, stop, plain"
    ):
        check_parameters(0.9, 0.4, "french")


def test_title_and_text_are_indexed_together():
    corpus = Corpus.of([Passage("a", "Radium", "glows"), Passage("b", "", "to be")])
    assert index_terms(corpus, Analyzer(stemming=False)) == [["radium", "glows"], []]


@pytest.mark.parametrize("function", [index_terms, number_terms])
def test_a_corpus_without_a_term_is_refused(function):
    with pytest.raises(InputError, match="no passage has a term"):
        function(Corpus.of([Passage("a", "It", "to be or not to be")]), Analyzer())


def test_numbers_stand_for_the_same_terms():
    corpus = Corpus.of(
        [
            Passage("a", "Radium", "glows radium"),
            Passage("b", "", "to be"),
            Passage("c", "", "glows"),
        ]
    )
    found = number_terms(corpus, Analyzer(stemming=False))
    assert found.vocab == {"radium": 0, "glows": 1}
    assert list(found.ids) == [[0, 1, 0], [], [1]]
    words = list(found.vocab)
    spelled = [[words[number] for number in numbers] for numbers in found.ids]
    assert spelled == index_terms(corpus, Analyzer(stemming=False))


def test_lists_of_numbers_come_back():
    numbers = Numbers()
    for kept in ([], [2**31 - 1, 0], [7]):
        numbers.append(kept)
    assert list(numbers) == [[], [2**31 - 1, 0], [7]] and len(numbers) == 3
    assert numbers[-1] == [7] and numbers[1:] == [[2**31 - 1, 0], [7]]
    with pytest.raises(IndexError):
        numbers[3]
