import pytest

from retrieval.compose import needs_corpus
from retrieval.corpus import Corpus
from retrieval.errors import InputError
from retrieval.retrievers import empty
from retrieval.types import Passage


def test_it_never_finds_anything_and_needs_no_corpus():
    assert not needs_corpus(empty, empty.Config())
    engine = empty.build(empty.Config(), None)
    assert engine.search(["heron", "", "radium"], 5) == [[], [], []]
    assert engine.search([], 5) == [] and engine.fingerprint == "none"
    with pytest.raises(InputError, match="k is 0"):
        engine.search(["heron"], 0)


def test_a_corpus_that_is_named_is_noted():
    corpus = Corpus.of([Passage("a", "", "heron")])
    engine = empty.build(empty.Config(), corpus)
    assert engine.search(["heron"], 5) == [[]] and engine.fingerprint == corpus.fingerprint
