import math

import pytest

from retrieval.analyzer import Analyzer
from retrieval.bm25 import check_parameters, index_terms
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


def test_a_corpus_without_a_term_is_refused():
    with pytest.raises(InputError, match="no passage has a term"):
        index_terms(Corpus.of([Passage("a", "It", "to be or not to be")]), Analyzer())
