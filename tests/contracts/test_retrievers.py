"""What every search engine in `retrieval/retrievers/` owes its callers, whatever its scores."""

import dataclasses
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval import plugins
from retrieval.corpus import Corpus
from retrieval.errors import InputError
from retrieval.index import build_index, open_index
from retrieval.store import write_store
from retrieval.types import Passage
from tests.contracts.retriever_setups import SETUPS

FOLDER = "retrieval.retrievers"

# Three twins whose ids are not in corpus order, accents, scripts, an empty title, a stop-word text.
CORPUS = Corpus.of(
    [
        Passage("t3", "Twin", "The quick heron waits beside the river."),
        Passage("m1", "Marie Curie", "Marie Curie discovered polonium and radium in Paris."),
        Passage("t1", "Twin", "The quick heron waits beside the river."),
        Passage("e1", "", "Radium glows; Curie's notebooks are radioactive still."),
        Passage("u1", "Žižkov", "Žižkov je čtvrť v Praze. İzmir, Москва, 東京, café."),
        Passage("t2", "Twin", "The quick heron waits beside the river."),
        Passage("s1", "It", "to be or not to be"),
        Passage("r1", "Radium", "Radium radium radium: a metal, found with polonium."),
    ]
)
QUERIES = [
    "heron river",
    "who discovered radium and polonium",
    "radium",
    "café Москва žižkov İzmir 東京",
    "to be or not",
    "zzyzx",
    "radium radium heron",
    "<search>curie</search> \x00 \u2028 \U0001f600",
]


@pytest.fixture(scope="module", params=plugins.names(FOLDER))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def plugin(name):
    return plugins.load(FOLDER, name)


@pytest.fixture(scope="module")
def config(name, plugin, tmp_path_factory):
    if name not in SETUPS:
        yield plugin.Config()
        return
    with SETUPS[name](CORPUS, tmp_path_factory.mktemp(name)) as config:
        yield config


@pytest.fixture(scope="module")
def retriever(plugin, config):
    return plugin.build(config, CORPUS)


def check_answer(hits, k):
    assert len(hits) <= k
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    ids = [hit.passage.id for hit in hits]
    assert len(set(ids)) == len(ids), "T23: a passage twice in one answer"
    assert all(hit.passage in CORPUS.passages for hit in hits)
    assert all(type(hit.score) is float for hit in hits)
    for better, worse in pairwise(hits):
        assert better.score >= worse.score
        if better.score == worse.score:
            assert better.passage.id < worse.passage.id


def test_the_folder_is_not_empty():
    assert {"bm25s", "rank_bm25"} <= set(plugins.names(FOLDER))


def test_the_module_says_what_it_is(plugin):
    assert len(plugin.__doc__.splitlines()) > 3


def test_config_is_frozen_and_documents_every_field(plugin):
    config = plugin.Config()
    assert plugin.Config.__dataclass_params__.frozen
    # A field that is inherited is documented where it comes from.
    texts = "".join(base.__doc__ or "" for base in plugin.Config.__mro__)
    for field in dataclasses.fields(config):
        assert f"{field.name}: " in texts


@pytest.mark.parametrize("k", [1, 2, 3, 8, 1000, 10**20])
def test_answers_are_ordered_ranked_and_without_repeats(retriever, k):
    answers = retriever.search(QUERIES, k)
    assert len(answers) == len(QUERIES)
    for hits in answers:
        check_answer(hits, k)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(query=st.text(max_size=40) | st.text(alphabet="aeiou '\u2019\u0307\ud800", max_size=9))
def test_any_string_is_a_query(retriever, query):
    (hits,) = retriever.search([query], 3)
    check_answer(hits, 3)


def test_an_empty_query_has_no_hits(retriever):
    assert retriever.search(["", " \n\t", "?!"], 3) == [[], [], []]


def test_an_empty_batch_has_no_answers(retriever):
    assert retriever.search([], 3) == []


def test_a_batch_equals_its_queries_one_by_one(retriever):
    batch = retriever.search([*QUERIES, *QUERIES], 4)
    assert batch == [retriever.search([query], 4)[0] for query in [*QUERIES, *QUERIES]]


def test_a_second_search_and_a_second_build_answer_alike(plugin, config, retriever):
    first = retriever.search(QUERIES, 5)
    assert retriever.search(QUERIES, 5) == first
    assert plugin.build(config, CORPUS).search(QUERIES, 5) == first


def test_an_index_folder_answers_as_the_engine_built_in_memory(name, config, retriever, tmp_path):
    write_store(CORPUS.passages, tmp_path)
    build_index(tmp_path / "passages.jsonl", tmp_path / "index", name, config)
    opened = open_index(tmp_path / "index", CORPUS)
    assert opened.corpus.fingerprint == CORPUS.fingerprint
    assert list(opened.corpus.passages) == list(CORPUS.passages)
    assert opened.retriever.search(QUERIES, 5) == retriever.search(QUERIES, 5)


def test_an_engine_that_brings_its_own_passages_says_which(plugin, retriever):
    if not getattr(plugin, "NEEDS_CORPUS", True):
        assert retriever.fingerprint == CORPUS.fingerprint


@pytest.mark.parametrize("k", [0, -1])
@pytest.mark.parametrize("queries", [["radium"], []])
def test_k_below_one_is_refused(retriever, queries, k):
    with pytest.raises(InputError, match=f"k is {k}: "):
        retriever.search(queries, k)
