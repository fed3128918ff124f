"""Fail-over and its bookkeeping; what a far side may do to one attempt is in test_http.py."""

import random
from collections import Counter

import pytest

from retrieval.errors import InputError, RetrievalError
from retrieval.replicas import Patience, ReplicaError, Replicas, check_url
from tests.retrieval.far_side import far_side, send

PATIENCE = Patience(connect_s=5, read_s=5, total_s=30, attempts=4, max_bytes=1000)


def body(reply):
    return reply.body


def counting(asked, name, status, headers=None):
    def script(handler, path, sent):
        asked[name] += 1
        send(handler, name.encode(), status, headers)

    return script


def test_one_that_asks_to_be_left_alone_is_while_others_answer():
    asked = Counter()
    hour = {"Retry-After": "3600"}
    with (
        far_side(counting(asked, "busy", 503, hour)) as busy,
        far_side(counting(asked, "fine", 200)) as fine,
    ):
        replicas = Replicas([busy, fine], PATIENCE)
        assert [replicas.ask("/", b"{}", body) for _ in range(20)] == [b"fine"] * 20
    assert asked == {"busy": 1, "fine": 20}


def test_an_answer_that_fails_the_check_is_asked_for_elsewhere():
    def check(reply):
        if reply.body == b"wrong":
            raise ReplicaError("wrong", 3600)
        return reply.body

    asked = Counter()
    with (
        far_side(counting(asked, "wrong", 200)) as wrong,
        far_side(counting(asked, "right", 200)) as right,
    ):
        replicas = Replicas([wrong, right], PATIENCE)
        assert [replicas.ask("/", b"{}", check) for _ in range(5)] == [b"right"] * 5
    assert asked["wrong"] == 1


def test_pauses_are_not_drawn_from_a_runs_random_numbers():
    random.seed(3)
    before = random.getstate()
    with far_side(counting(Counter(), "x", 500)) as url:
        replicas = Replicas([url], PATIENCE)
        with pytest.raises(RetrievalError, match=f"no replica answered; .*{url}/x: status 500: x"):
            replicas.ask("/x", b"{}", body)
    assert random.getstate() == before


def test_an_answer_of_just_the_longest_length_is_taken():
    for length in (1000, 1001):
        with far_side(lambda handler, path, sent, n=length: send(handler, b"x" * n)) as url:
            replicas = Replicas([url], PATIENCE)
            if length == 1000:
                assert replicas.ask("/", b"{}", body) == b"x" * 1000
            else:
                with pytest.raises(RetrievalError, match="longer than 1000 bytes"):
                    replicas.ask("/", b"{}", body)


def test_a_compressed_answer_is_not_unpacked():
    """1 KB can unpack to a gigabyte; nothing asked for compression."""
    gzip = {"Content-Encoding": "gzip"}
    with far_side(lambda handler, path, sent: send(handler, b"raw", headers=gzip)) as url:
        assert Replicas([url], PATIENCE).ask("/", b"{}", body) == b"raw"


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000"),
        ("http://localhost:8000/retrieve", "http://localhost:8000"),
        ("https://search.example/wiki/", "https://search.example/wiki"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_a_url_is_one_of_a_server(url, base):
    assert check_url(url) == base


@pytest.mark.parametrize(
    "url",
    ["", "host:1", "file:///etc/passwd", "http://", "http://h:0", "http://h:x", "http://h/#a"],
)
def test_another_url_is_refused(url):
    with pytest.raises(InputError, match="is no server's URL"):
        check_url(url)
