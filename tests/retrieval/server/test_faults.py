"""A server whose engine is slow, breaks, hangs, or which is told to stop."""

import http.client
import json
import signal
import threading

import pytest

from tests.retrieval.serving import serving

ODD = ("--retriever", "tests.retrieval.odd_engine")


def retrieve(server, *queries, timeout=60):
    return server.ask("POST", "/retrieve", {"queries": list(queries), "topk": 1}, timeout)


def in_background(call):
    """Run call() in a thread; the list that gets its result, and the thread."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    return results, thread


def until(server, gauge, value):
    """Wait until /metrics says that so many queries are "queued" or "searching"."""
    while True:
        lines = server.ask("GET", "/metrics")[2].splitlines()
        (line,) = [line for line in lines if line.startswith(f"retrieval_{gauge}_queries{{")]
        if float(line.split()[-1]) == value:
            return


@pytest.fixture(scope="module")
def odd(corpus_file):
    with serving(*ODD, "--corpus", str(corpus_file), "--limits.max_queue", "2") as server:
        yield server


@pytest.mark.parametrize(
    ("query", "status", "reason"),
    [
        ("fail", 502, "the search engine failed: the disk is gone"),
        ("bug", 502, "the search engine failed: KeyError: 'nobody foresaw this'"),
        ("few", 502, "the search engine failed: 0 answers to 1 queries"),
        ("nan", 502, "the search engine failed: a score is not a number"),
        ("refuse", 400, "not such a query: ask another"),
    ],
)
def test_a_failing_engine_is_a_502_in_one_line(odd, query, status, reason):
    body = {"queries": [query], "topk": 1, "return_scores": True}
    got, headers, answer = odd.ask("POST", "/retrieve", body)
    assert (got, answer) == (status, {"error": reason})
    assert headers["x-corpus-fingerprint"].startswith("sha256:")
    assert retrieve(odd, "fine")[0] == 200


@pytest.fixture
def gate(tmp_path):
    """A file whose making lets the engine go on."""
    return tmp_path / "gate"


def test_a_slow_search_does_not_hold_up_the_event_loop(odd, gate):
    results, thread = in_background(lambda: retrieve(odd, f"until {gate}"))
    until(odd, "searching", 1)
    assert odd.ask("GET", "/info")[0] == 200
    assert not results
    gate.touch()
    thread.join()
    assert results[0][0] == 200


def test_a_full_queue_is_a_503_that_says_when_to_come_again(odd, gate):
    _, first = in_background(lambda: retrieve(odd, f"until {gate}"))
    until(odd, "searching", 1)
    results, second = in_background(lambda: retrieve(odd, "a", "b"))
    until(odd, "queued", 2)
    status, headers, answer = retrieve(odd, "c")
    assert (status, headers["retry-after"]) == (503, "1")
    assert answer == {"error": "too many queries wait: ask again soon"}
    gate.touch()
    first.join()
    second.join()
    assert results[0][0] == 200 and retrieve(odd, "c")[0] == 200


def test_a_request_has_a_deadline_and_a_hung_engine_does_not_keep_the_server_alive(
    corpus_file, gate
):
    with serving(*ODD, "--corpus", str(corpus_file), "--limits.timeout_s", "0.5") as server:
        status, _, answer = retrieve(server, f"until {gate}")
        assert (status, answer) == (504, {"error": "no answer within 0.5 s"})
        assert retrieve(server, "behind it")[0] == 504
        assert server.ask("GET", "/health")[0] == 200
        assert server.stop() == 0


def test_sigterm_lets_requests_finish_and_takes_no_new_ones(corpus_file, gate):
    with serving(*ODD, "--corpus", str(corpus_file)) as server:
        results, thread = in_background(lambda: retrieve(server, f"until {gate}"))
        until(server, "searching", 1)
        idle = http.client.HTTPConnection(*server.address)  # an idle connection must not delay it
        idle.request("GET", "/health")
        idle.getresponse().read()
        behind, other = in_background(lambda: retrieve(server, "a", "b"))
        until(server, "queued", 2)
        server.process.send_signal(signal.SIGTERM)
        while True:  # until it listens no more
            try:
                http.client.HTTPConnection(*server.address).connect()
            except OSError:
                break
        assert not results and not behind
        gate.touch()
        thread.join()
        other.join()
        assert results[0][0] == behind[0][0] == 200
        assert len(behind[0][2]["result"]) == 2
        assert server.process.wait(30) == 0
        assert server.process.stderr.read() == ""


def test_a_client_that_hangs_up_harms_nobody(odd, gate):
    for _ in range(2):
        connection = http.client.HTTPConnection(*odd.address)
        body = json.dumps({"queries": [f"until {gate}"]}).encode()
        connection.request("POST", "/retrieve", body)
        until(odd, "searching", 1)
        connection.close()
    gate.touch()
    assert retrieve(odd, "fine")[0] == 200


def test_half_a_request_does_not_hold_up_others(odd):
    connection = http.client.HTTPConnection(*odd.address)
    connection.putrequest("POST", "/retrieve")
    connection.putheader("Content-Length", "100")
    connection.endheaders(b'{"queries"')
    assert retrieve(odd, "fine")[0] == 200
    connection.close()
