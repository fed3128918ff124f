"""T12: every dialect, asked by clients written from the protocol table, answers as in process."""

import threading
from urllib.parse import quote, urlencode

import pytest

from retrieval.server.dialects import DIALECTS
from tests.retrieval.server.passages import CORPUS, QUERIES


def contents(hit):
    return f'"{hit.passage.title}"\n{hit.passage.text}'


def documents(hits):
    return [{"id": hit.passage.id, "contents": contents(hit)} for hit in hits]


def scored(hits):
    return [
        {"document": document, "score": hit.score}
        for document, hit in zip(documents(hits), hits, strict=True)
    ]


def ask(server, method, path, body=None):
    status, headers, answer = server.ask(method, path, body)
    assert status == 200, answer
    assert headers["x-corpus-fingerprint"] == CORPUS.fingerprint
    return answer


BATCHES = [[], QUERIES[:1], QUERIES[:2], QUERIES[:3], ["", QUERIES[0], " "], ["zzyzx", QUERIES[2]]]


@pytest.mark.parametrize("queries", BATCHES, ids=len)
@pytest.mark.parametrize("k", [1, 3, 1000])
def test_search_r1(server, engine, queries, k):
    expected = engine.search(queries, k)
    body = {"queries": queries, "topk": k, "return_scores": True}
    answer = ask(server, "POST", "/retrieve", body)
    assert answer == {"result": [scored(hits) for hits in expected]}
    bare = ask(server, "POST", "/retrieve", {**body, "return_scores": False})
    assert bare == {"result": [documents(hits) for hits in expected]}
    assert ask(server, "POST", "/retrieve", {"queries": queries, "topk": k}) == bare


@pytest.mark.parametrize("absent", [{}, {"topk": None}, {"topk": None, "return_scores": None}])
def test_search_r1_without_a_number_means_the_servers_default(server, engine, absent):
    answer = ask(server, "POST", "/retrieve", {"queries": ["radium"], **absent})
    hits = engine.search(["radium"], 3)[0]
    assert len(hits) == 3
    assert answer == {"result": [documents(hits)]}


@pytest.mark.parametrize("query", [*QUERIES, "", "zzyzx"])
def test_verl_agent_and_older_skyrl_get_one_outer_list(server, engine, query):
    (hits,) = engine.search([query], 2)
    body = {"query": query, "topk": 2, "return_scores": True}
    assert ask(server, "POST", "/retrieve", body) == {"result": [scored(hits)]}
    body["return_scores"] = False
    assert ask(server, "POST", "/retrieve", body) == {"result": [documents(hits)]}


@pytest.mark.parametrize("path", ["/retrieve", "/"])
@pytest.mark.parametrize("name", ["top_k", "k"])
@pytest.mark.parametrize("query", [*QUERIES, ""])
def test_ragen_and_rllm(server, engine, path, name, query):
    (hits,) = engine.search([query], 2)
    answer = ask(server, "POST", path, {"query": query, name: 2})
    assert answer["query"] == query and answer["num_results"] == len(hits)
    read_by_ragen = [(r["id"], r["content"], r["score"]) for r in answer["results"]]
    assert read_by_ragen == [(hit.passage.id, contents(hit), hit.score) for hit in hits]
    read_by_rllm = [{"document": r["document"], "score": r["score"]} for r in answer["results"]]
    assert read_by_rllm == scored(hits)


def test_ragens_health_check(server):
    assert ask(server, "GET", "/health")["status"] == "healthy"


@pytest.mark.parametrize("query", [*QUERIES, ""])
def test_recall(server, engine, query):
    (hits,) = engine.search([query], 2)
    body = {"query": query, "top_n": 2, "return_score": False}
    assert ask(server, "POST", "/search", body) == documents(hits)
    body["return_score"] = True
    assert ask(server, "POST", "/search", body) == [documents(hits), [hit.score for hit in hits]]


@pytest.mark.parametrize("queries", BATCHES, ids=len)
def test_recalls_batch(server, engine, queries):
    expected = engine.search(queries, 2)
    body = {"query": queries, "top_n": 2, "return_score": False}
    assert ask(server, "POST", "/batch_search", body) == [documents(hits) for hits in expected]
    body["return_score"] = True
    assert ask(server, "POST", "/batch_search", body) == [
        [documents(hits) for hits in expected],
        [[hit.score for hit in hits] for hits in expected],
    ]


@pytest.mark.parametrize("query", [*QUERIES, "zzyzx", "a+b &c=d/é"])
def test_pyserini(server, engine, query):
    (hits,) = engine.search([query], 2)
    answer = ask(server, "GET", f"/v1/bm25s/search?{urlencode({'query': query, 'hits': 2})}")
    assert answer == {
        "api": "v1",
        "index": "bm25s",
        "query": {"text": query},
        "candidates": [
            {
                "docid": hit.passage.id,
                "score": hit.score,
                "rank": hit.rank,
                "doc": contents(hit),
            }
            for hit in hits
        ],
    }
    raw = ask(server, "GET", f"/v1/bm25s/search?query={quote(query)}&hits=2&parse=false")
    assert [candidate["doc"] for candidate in raw["candidates"]] == documents(hits)


def test_pyserini_without_hits_means_ten(server, engine):
    answer = ask(server, "GET", "/v1/bm25s/search?query=radium%20Paris%20heron%20%C5%BEi%C5%BEkov")
    (hits,) = engine.search(["radium Paris heron žižkov"], 10)
    assert len(hits) == len(CORPUS.passages)
    assert [candidate["docid"] for candidate in answer["candidates"]] == [
        h.passage.id for h in hits
    ]


@pytest.mark.parametrize("path", ["/", "/search"])
@pytest.mark.parametrize("query", [*QUERIES, ""])
def test_searxng_and_agilerl(server, engine, path, query):
    (hits,) = engine.search([query], 10)
    fields = {"q": query, "format": "json", "language": "en", "categories": "general"}
    answer = ask(server, "GET", f"{path}?{urlencode(fields)}")
    assert [r["content"] for r in answer["results"]] == [contents(hit) for hit in hits]
    assert [r["title"] for r in answer["results"]] == [hit.passage.title for hit in hits]
    assert len({r["url"] for r in answer["results"]}) == len(hits)
    assert answer["query"] == query and answer["number_of_results"] == len(hits)


@pytest.mark.parametrize("queries", BATCHES, ids=len)
def test_native_is_exact(server, engine, queries):
    answer = ask(server, "POST", "/api/search", {"queries": queries, "k": 3})
    read = [
        [(h["id"], h["title"], h["text"], h["score"], h["rank"]) for h in hits]
        for hits in answer["answers"]
    ]
    assert read == [
        [(h.passage.id, h.passage.title, h.passage.text, h.score, h.rank) for h in hits]
        for hits in engine.search(queries, 3)
    ]


def test_the_query_may_be_any_string_json_can_spell(server, engine):
    for query in ["\x00", "radium \ud800", "\udfff", "radium" * 16_000, "\u2028\u2029\ufeffradium"]:
        (hits,) = engine.search([query], 2)
        assert ask(server, "POST", "/retrieve", {"query": query, "k": 2})["query"] == query
        answer = ask(server, "POST", "/retrieve", {"queries": [query], "topk": 2})
        assert answer == {"result": [documents(hits)]}


def test_32_clients_at_once_each_get_their_own_answers(server, engine):
    """Requests of different sizes and numbers, batched together in the server."""
    words = ["radium", "polonium", "paris", "heron", "river", "curie", "žižkov", "metal"]
    wrong: list[object] = []
    together = threading.Barrier(32)

    def client(number):
        together.wait()
        for turn in range(8):
            queries = [words[(number + turn + i) % 8] for i in range((number + turn) % 4)]
            k = 1 + number % 3
            body = {"queries": queries, "topk": k, "return_scores": True}
            answer = server.ask("POST", "/retrieve", body)[2]
            if answer != {"result": [scored(hits) for hits in engine.search(queries, k)]}:
                wrong.append((queries, k, answer))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_info_lists_every_dialect(server):
    assert set(ask(server, "GET", "/info")["dialects"]) == {dialect.name for dialect in DIALECTS}
