"""A wrong request is refused with a reason: never a 500, and never a broken server."""

import http.client
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.retrieval.server.passages import CORPUS

LONG = "x" * 131_073

WRONG = [
    ("POST", "/retrieve", b"", 400, "not JSON"),
    ("POST", "/retrieve", b"nope", 400, "not JSON: Expecting value at character 1"),
    ("POST", "/retrieve", b'{"queries": ["a"]', 400, "not JSON"),
    ("POST", "/retrieve", b"\xff\xfe\x00", 400, "not JSON"),
    ("POST", "/retrieve", b"[" * 100_000, 400, "not JSON"),
    ("POST", "/retrieve", b'{"queries": ["a"], "topk": ' + b"9" * 9999 + b"}", 400, "not JSON"),
    ("POST", "/retrieve", b'{"queries": ["a"], "topk": ' + b"9" * 400 + b"}", 400, "topk is 999"),
    ("POST", "/retrieve", ["a"], 400, "the body must be a JSON object"),
    ("POST", "/retrieve", {}, 400, "send either queries"),
    ("POST", "/retrieve", {"queries": ["a"], "query": "a"}, 400, "send either queries"),
    ("POST", "/retrieve", {"queries": "a"}, 400, "queries must be a list of strings, not a string"),
    ("POST", "/retrieve", {"queries": ["a", None]}, 400, "queries[1] must be a string, not null"),
    ("POST", "/retrieve", {"queries": [["a"]]}, 400, "queries[0] must be a string, not a list"),
    ("POST", "/retrieve", {"query": ["a"], "topk": 1}, 400, "query must be a string, not a list"),
    ("POST", "/retrieve", {"queries": ["a"], "topk": 0}, 400, "topk is 0: ask for 1 to 1000"),
    ("POST", "/retrieve", {"queries": ["a"], "topk": -3}, 400, "topk is -3: ask for 1 to 1000"),
    ("POST", "/retrieve", {"queries": ["a"], "topk": 1001}, 400, "topk is 1001: ask for 1 to 1000"),
    ("POST", "/retrieve", {"queries": ["a"], "topk": 2.0}, 400, "not a decimal number"),
    ("POST", "/retrieve", {"queries": ["a"], "topk": True}, 400, "not a boolean"),
    ("POST", "/retrieve", {"queries": ["a"], "topk": "3"}, 400, "not a string"),
    ("POST", "/retrieve", {"queries": ["a"], "topk": 3, "k": 3}, 400, "topk and k say the same"),
    ("POST", "/retrieve", {"queries": ["a"], "return_scores": 1}, 400, "must be true or false"),
    ("POST", "/retrieve", {"queries": ["a"], "bogus": 1}, 400, "unknown field 'bogus'"),
    ("POST", "/retrieve", {"queries": ["a"], "top_n": 1}, 400, "unknown field 'top_n'"),
    ("POST", "/retrieve", {"queries": ["a"] * 1025}, 413, "send at most 1024"),
    ("POST", "/retrieve", {"queries": [LONG]}, 413, "queries[0] has 131073 characters"),
    ("POST", "/retrieve", b" " * 16_777_217, 413, "send at most 16777216 bytes"),
    ("POST", "/search", {"query": ["a"]}, 400, "query must be a string"),
    ("POST", "/search", {"query": "a", "topk": 1}, 400, "unknown field 'topk'"),
    ("POST", "/batch_search", {"query": "a"}, 400, "query must be a list of strings"),
    ("POST", "/batch_search", {"top_n": 3}, 400, "query is missing"),
    ("POST", "/api/search", {"query": "a"}, 400, "queries is missing"),
    ("POST", "/api/search?index=other", {"queries": []}, 404, "no index 'other' here"),
    ("GET", "/v1/bm25s/search", None, 400, "query is missing"),
    ("GET", "/v1/bm25s/search?query=a&hits=0", None, 400, "hits is 0"),
    ("GET", "/v1/bm25s/search?query=a&hits=1.5", None, 400, "hits must be a whole number"),
    ("GET", "/v1/bm25s/search?query=a&hits=%C2%B2", None, 400, "hits must be a whole number"),
    ("GET", "/v1/bm25s/search?query=a&parse=maybe", None, 400, "parse must be true or false"),
    ("GET", "/v1/other/search?query=a", None, 404, "no index 'other' here; there is 'bm25s'"),
    ("GET", "/v1//etc/passwd/search?query=a", None, 404, "no index '/etc/passwd' here"),
    ("GET", "/?format=json", None, 400, "q is missing"),
    ("GET", "/nowhere", None, 404, "Not Found; see GET /info"),
    ("DELETE", "/retrieve", None, 405, "Method Not Allowed"),
    ("GET", "/retrieve", None, 405, "Method Not Allowed"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "reason"), WRONG)
def test_a_wrong_request_is_refused_with_a_reason(server, method, path, body, status, reason):
    got, headers, answer = server.ask(method, path, body)
    assert (got, list(answer)) == (status, ["error"])
    assert reason in answer["error"] and "\n" not in answer["error"]
    assert headers["x-corpus-fingerprint"] == CORPUS.fingerprint


def test_a_body_without_a_length_is_cut_off_at_the_limit(server):
    connection = http.client.HTTPConnection(*server.address, timeout=60)
    endless = (b" " * 65536 for _ in range(257))  # 257 * 64 KiB = the limit and 64 KiB more
    connection.request("POST", "/retrieve", endless, encode_chunked=True)
    response = connection.getresponse()
    assert response.status == 413
    connection.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["queries", "query", "topk", "top_k", "k", "return_scores", "top_n", "return_score", "x"]
)


@settings(max_examples=150, derandomize=True)
@given(
    path=st.sampled_from(["/retrieve", "/", "/search", "/batch_search", "/api/search"]),
    body=st.dictionaries(NAMES, JSON | st.lists(st.text(max_size=9), max_size=3), max_size=4),
)
def test_no_body_is_the_servers_fault(server, path, body):
    status, _, answer = server.ask("POST", path, json.dumps(body).encode())
    assert status in (200, 400, 413), answer


@settings(max_examples=50, derandomize=True)
@given(body=st.binary(max_size=60))
def test_no_bytes_are_the_servers_fault(server, body):
    # 200 because hypothesis tries byte strings of the sources too, and one is a request.
    assert server.ask("POST", "/retrieve", body)[0] in (200, 400)
