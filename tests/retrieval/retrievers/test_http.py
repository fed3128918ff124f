"""The HTTP client: against real servers, and against far sides that misbehave (T11)."""

import multiprocessing
import pickle
import signal
import socket
import threading
import time
import warnings
from collections import Counter
from contextlib import ExitStack

import pytest

from retrieval.corpus import Corpus
from retrieval.errors import InputError, RetrievalError
from retrieval.retrievers import bm25s, http
from retrieval.store import PASSAGES, write_store
from retrieval.types import Passage
from tests.retrieval.far_side import far_side, send, send_json
from tests.retrieval.server.passages import CORPUS, QUERIES
from tests.retrieval.serving import serving

OTHER = Corpus.of([Passage("o1", "Other", "radium elsewhere")])
QUICK = {"start_s": 5.0, "read_s": 1.0, "total_s": 3.0, "attempts": 3}
INFO = {
    "fingerprint": CORPUS.fingerprint,
    "engine": "bm25s",
    "passages": 7,
    "limits": {"max_k": 1000},
}
FINGERPRINT = {"X-Corpus-Fingerprint": CORPUS.fingerprint}
HIT = {"id": "m1", "title": "t", "text": "x", "score": 1.5, "rank": 1}


@pytest.fixture(scope="module")
def corpus_files(tmp_path_factory):
    files = {}
    for name, corpus in (("mine", CORPUS), ("other", OTHER)):
        folder = tmp_path_factory.mktemp(name)
        write_store(corpus.passages, folder)
        files[name] = str(folder / PASSAGES)
    return files


def serve(corpus_files, *more, name="mine", engine="bm25s", port=0):
    return serving("--retriever", engine, "--corpus", corpus_files[name], *more, port=port)


@pytest.fixture(scope="module")
def server(corpus_files):
    with serve(corpus_files) as running:
        yield running


@pytest.fixture(scope="module")
def expected():
    return bm25s.build(bm25s.Config(), CORPUS)


def answering(answer=None, **headers):
    """A script of our server; `answer` is what a search gets, or a function that sends it."""

    def script(handler, path, body):
        if path.startswith("/info"):
            send_json(handler, INFO)
        elif callable(answer):
            answer(handler)
        else:
            send_json(handler, answer, X_Corpus_Fingerprint=CORPUS.fingerprint, **headers)

    return script


class TestAgainstOurServer:
    @pytest.mark.parametrize("dialect", ["native", "search_r1"])
    @pytest.mark.parametrize("queries", [[], QUERIES, ["", *QUERIES, "zzyzx", "\ud800\x00"]])
    def test_both_dialects_answer_as_in_process(self, server, expected, dialect, queries):
        client = http.build(http.Config((server.url,), dialect), CORPUS)
        assert client.fingerprint == CORPUS.fingerprint
        for k in (1, 3, 1000):
            assert client.search(queries, k) == expected.search(queries, k)

    def test_a_url_may_name_the_route_as_search_r1s_setting_does(self, server, expected):
        client = http.build(http.Config((f"{server.url}/retrieve",), "search_r1"), None)
        assert client.search(QUERIES, 3) == expected.search(QUERIES, 3)

    def test_large_batches_are_sent_in_parts_and_come_back_in_order(self, server, expected):
        client = http.build(http.Config((server.url,) * 2, batch=3), None)
        queries = [f"{query} {number}" for number in range(20) for query in QUERIES]
        assert client.search(queries, 2) == expected.search(queries, 2)

    def test_an_index_is_chosen_by_name(self, server, expected):
        client = http.build(http.Config((server.url,), index="bm25s"), None)
        assert client.search(QUERIES, 3) == expected.search(QUERIES, 3)
        with pytest.raises(InputError, match="no index 'none' here"):
            http.build(http.Config((server.url,), index="none"), None)

    def test_a_query_the_server_refuses_is_an_error_at_once(self, server):
        client = http.build(http.Config((server.url,)), None)
        with pytest.raises(RetrievalError, match=r"refused with status 413: .*at most 131072"):
            client.search(["x" * 131_073], 1)

    def test_a_copy_asks_the_servers_anew(self, server, expected):
        client = http.build(http.Config((server.url,)), CORPUS)
        copy = pickle.loads(pickle.dumps(client))
        assert copy.search(QUERIES, 3) == client.search(QUERIES, 3) == expected.search(QUERIES, 3)

    def test_a_fork_does_not_speak_on_its_parents_connections(self, server, expected):
        client = http.build(http.Config((server.url,)), CORPUS)
        right = expected.search(QUERIES, 3)
        assert client.search(QUERIES, 3) == right
        queue = multiprocessing.get_context("fork").SimpleQueue()

        def child():
            queue.put([client.search(QUERIES, 3) == right for _ in range(20)])

        processes = [multiprocessing.get_context("fork").Process(target=child) for _ in range(2)]
        for process in processes:
            process.start()
        assert [client.search(QUERIES, 3) == right for _ in range(20)] == [True] * 20
        assert [queue.get() for _ in processes] == [[True] * 20] * 2
        for process in processes:
            process.join()


class TestReplicas:
    def test_killing_one_of_two_under_load_loses_no_query(self, corpus_files, expected):
        """And it is asked again once it is back on its port."""
        words = ["radium", "polonium", "paris", "heron", "river", "curie", "žižkov", "metal"]
        right = {word: expected.search([word], 3) for word in words}
        done, wrong, stop = [0] * 8, [], threading.Event()

        def load(client, number):
            while not stop.is_set():
                word = words[(number + done[number]) % 8]
                try:
                    if client.search([word], 3) != right[word]:
                        wrong.append(word)
                except RetrievalError as error:
                    wrong.append(str(error))
                done[number] += 1

        def more(least):
            """Wait until every thread has done so many searches more."""
            goal = [count + least for count in done]
            while not wrong and any(count < aim for count, aim in zip(done, goal, strict=True)):
                time.sleep(0.01)

        with ExitStack() as stack:
            first = stack.enter_context(serve(corpus_files))
            second = stack.enter_context(serve(corpus_files))
            client = http.build(http.Config((first.url, second.url)), CORPUS)
            threads = [threading.Thread(target=load, args=(client, n)) for n in range(8)]
            for thread in threads:
                thread.start()
            more(20)
            assert first.stop(signal.SIGKILL) == -signal.SIGKILL
            more(50)
            port = first.address[1]
            again = stack.enter_context(serve(corpus_files, port=port))
            while "native" not in again.ask("GET", "/metrics")[2] and not wrong:
                more(1)
            more(5)
            assert second.stop(signal.SIGKILL) == -signal.SIGKILL
            more(20)
            stop.set()
            for thread in threads:
                thread.join()
        assert not wrong
        assert min(done) >= 95

    def test_replicas_share_the_load(self):
        asked = []

        def script(handler, path, body):
            asked.append((handler.server.server_address, path))
            answering({"answers": [[HIT]]})(handler, path, body)

        with far_side(script) as first, far_side(script) as second, far_side(script) as third:
            client = http.build(http.Config((first, second, third)), None)
            for _ in range(12):
                client.search(["radium"], 1)
        searches = Counter(server for server, path in asked if path == "/api/search")
        assert sorted(searches.values()) == [4, 4, 4]

    @pytest.mark.parametrize(
        "other",
        [{"fingerprint": OTHER.fingerprint}, {"engine": "rank_bm25"}],
        ids=lambda other: next(iter(other)),
    )
    def test_replicas_that_differ_are_refused(self, server, other):
        with (
            far_side(lambda handler, path, body: send_json(handler, {**INFO, **other})) as url,
            pytest.raises(InputError, match=f"{url} and {server.url} differ: .* must be alike"),
        ):
            http.build(http.Config((server.url, url)), None)

    def test_more_passages_than_a_server_gives_are_refused_unless_there_are_not_as_many(self):
        asked = []

        def script(handler, path, body):
            asked.append(body)
            if path == "/info":
                send_json(handler, {**INFO, "limits": {"max_k": 4}})
            else:
                answering({"answers": [[]]})(handler, path, body)

        with far_side(script) as url:
            client = http.build(http.Config((url,)), None)
            with pytest.raises(InputError, match="k is 5: the server gives at most 4"):
                client.search(["radium"], 5)
            assert client.search(["radium"], 4) == [[]]
        assert asked[1:] == [{"queries": ["radium"], "k": 4}]

    def test_another_corpus_than_the_one_given_is_refused(self, server):
        with pytest.raises(InputError, match="serves another corpus"):
            http.build(http.Config((server.url,)), OTHER)

    def test_one_that_is_not_there_is_left_out_with_a_warning(self, server, expected):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            dead = f"http://127.0.0.1:{nobody.getsockname()[1]}"
            with pytest.warns(UserWarning, match=f"{dead} is not there, going on without it"):
                client = http.build(http.Config((dead, server.url)), None)
            assert client.search(QUERIES, 3) == expected.search(QUERIES, 3)

    def test_one_that_serves_another_corpus_later_is_not_listened_to(self, server, expected):
        """A replica may be started again with another index while a run goes on."""
        alien = {"answers": [[HIT]]}

        def script(handler, path, body):
            if path == "/info":
                send_json(handler, INFO)
            else:
                send_json(handler, alien, X_Corpus_Fingerprint=OTHER.fingerprint)

        with far_side(script) as changed:
            client = http.build(http.Config((changed, server.url), **QUICK), CORPUS)
            for _ in range(6):
                assert client.search(["radium"], 3) == expected.search(["radium"], 3)
            alone = http.build(http.Config((changed,), **QUICK), CORPUS)
            with pytest.raises(RetrievalError, match="serves another corpus now"):
                alone.search(["radium"], 3)


def hang(handler):
    handler.stopped.wait(60)


def drip(handler):
    """A byte now and then, so that no read ever times out."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.send_header("X-Corpus-Fingerprint", CORPUS.fingerprint)
    handler.end_headers()
    while not handler.stopped.wait(0.1):
        handler.wfile.write(b" ")


def cut(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"answers": [[')
    handler.close_connection = True


def huge(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", str(1 << 40))
    handler.end_headers()
    while True:
        handler.wfile.write(b" " * 65536)


def hit(**changes):
    return {"answers": [[{**HIT, **changes}]]}


FAULTS = {
    "time-out": (hang, "ReadTimeoutError"),
    "drip": (drip, "took too long"),
    "cut": (cut, "IncompleteRead"),
    "huge": (huge, "longer than 100000 bytes"),
    "500": (lambda h: send(h, b"oops\nall", 500), "status 500: oops all"),
    "502": (lambda h: send(h, b"", 502), "status 502"),
    "redirect": (lambda h: send(h, b"", 302, {"Location": "http://127.0.0.1:1/"}), "status 302"),
    "not HTTP": (lambda h: h.wfile.write(b"\x00\xff garbage\r\n\r\n"), "ProtocolError"),
    "bad JSON": (lambda h: send(h, b"{", 200, FINGERPRINT), "not JSON"),
    "deep JSON": (lambda h: send(h, b"[" * 99_999, 200, FINGERPRINT), "not JSON"),
    "a list": ([], "the answer is no object"),
    "nothing": ({}, "answers is no list of lists"),
    "empty list": ({"answers": []}, "0 answers to 1 queries"),
    "two answers": ({"answers": [[], []]}, "2 answers to 1 queries"),
    "no lists": ({"answers": ["a"]}, "answers is no list of lists"),
    "no hit": ({"answers": [["a"]]}, "a hit is no object"),
    "id": (hit(id=1), "id is no text"),
    "text": (hit(text=None), "text is no text"),
    "surrogate": (hit(title="\ud800"), "title is not valid Unicode"),
    "score": (hit(score="1"), "a score is no number"),
    "score true": (hit(score=True), "a score is no number"),
    "score nan": (hit(score=float("nan")), "a score is no finite number"),
    "score endless": (hit(score=10**400), "a score is no finite number"),
    "rank": (hit(rank=2), "out of order"),
    "rank true": (hit(rank=True), "a rank is no whole number"),
    "too many": ({"answers": [[{**HIT, "id": str(n), "rank": n} for n in (1, 2, 3)]]}, "too many"),
    "repeat": ({"answers": [[HIT, {**HIT, "rank": 2}]]}, "repeats one"),
    "ties": (
        {"answers": [[{**HIT, "id": i, "rank": r} for i, r in (("b", 1), ("a", 2))]]},
        "order",
    ),
}


class TestFaults:
    @pytest.mark.parametrize("name", FAULTS)
    def test_t11_is_a_retrieval_error_that_names_the_server(self, name):
        answer, reason = FAULTS[name]
        limits = {"start_s": 5.0, "read_s": 0.4, "total_s": 1.0, "attempts": 2}
        with far_side(answering(answer)) as url:
            client = http.build(http.Config((url,), max_bytes=100_000, **limits), CORPUS)
            with pytest.raises(RetrievalError, match=reason) as caught:
                client.search(["radium"], 2)
            assert url in str(caught.value) and "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "name", ["500", "bad JSON", "empty list", "cut", "not HTTP", "time-out"]
    )
    def test_what_passes_is_tried_again(self, name):
        bad, _ = FAULTS[name]
        served = []

        def script(handler, path, body):
            if path != "/info":
                served.append(path)
            ill = answering(bad) if len(served) == 1 else answering({"answers": [[HIT]]})
            ill(handler, path, body)

        with far_side(script) as url:
            client = http.build(http.Config((url,), **QUICK), CORPUS)
            ((found,),) = client.search(["radium"], 2)
            assert (found.passage.id, found.score, found.rank) == ("m1", 1.5, 1)
            assert len(served) == 2

    def test_attempts_are_counted_over_all_replicas(self):
        asked = []

        def script(handler, path, body):
            asked.append(path)
            answering(lambda h: send(h, b"", 503, {"Retry-After": "0"}))(handler, path, body)

        with far_side(script) as first, far_side(script) as second:
            client = http.build(http.Config((first, second), attempts=5), None)
            with pytest.raises(RetrievalError, match="status 503"):
                client.search(["radium"], 2)
        assert asked.count("/api/search") == 5

    def test_a_4xx_is_not_tried_again(self):
        asked = []

        def script(handler, path, body):
            asked.append(path)
            answering(lambda h: send(h, b'{"error": "no"}', 400))(handler, path, body)

        with far_side(script) as url:
            client = http.build(http.Config((url,)), None)
            with pytest.raises(RetrievalError, match="refused with status 400"):
                client.search(["radium"], 2)
        assert asked.count("/api/search") == 1

    def test_retry_after_is_kept_to_and_bounded_by_the_total(self):
        times = []

        def script(handler, path, body):
            if path != "/info":
                times.append(time.monotonic())
            ill = lambda h: send(h, b"", 503, {"Retry-After": "1"})  # noqa: E731
            answering(ill if len(times) == 1 else {"answers": [[HIT]]})(handler, path, body)

        with far_side(script) as url:
            client = http.build(http.Config((url,)), None)
            assert len(client.search(["radium"], 2)[0]) == 1
        assert times[1] - times[0] >= 1

        asked = []

        def later(handler, path, body):
            asked.append(path)
            answering(lambda h: send(h, b"", 503, {"Retry-After": "9" * 30}))(handler, path, body)

        with far_side(later) as url:
            client = http.build(http.Config((url,)), None)
            with pytest.raises(RetrievalError, match="status 503"):
                client.search(["radium"], 2)  # an hour's rest is longer than total_s: no waiting
        assert asked.count("/api/search") == 1

    def test_a_slow_start_is_waited_for(self, corpus_files, expected):
        with socket.socket() as chosen:
            chosen.bind(("127.0.0.1", 0))
            port = chosen.getsockname()[1]
        built = []
        config = http.Config((f"http://127.0.0.1:{port}",))
        thread = threading.Thread(target=lambda: built.append(http.build(config, CORPUS)))
        thread.start()  # nobody listens yet, and nobody will for as long as a server takes to start
        with serve(corpus_files, port=port):
            thread.join()
            assert built[0].search(QUERIES, 3) == expected.search(QUERIES, 3)

    def test_no_server_at_all_is_a_retrieval_error_after_a_bounded_wait(self):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
            with pytest.raises(RetrievalError, match=f"no server within 0.6 s: {url}"):
                http.build(http.Config((url,), start_s=0.6), None)

    @pytest.mark.parametrize(
        "info",
        [{}, [], {**INFO, "passages": "7"}, {**INFO, "limits": {}}, {**INFO, "engine": None}],
    )
    def test_a_server_of_another_kind_is_refused(self, info):
        with (
            far_side(lambda handler, path, body: send_json(handler, info)) as url,
            pytest.raises((InputError, RetrievalError), match=r"/info|not there|no object"),
        ):
            http.build(http.Config((url,), start_s=0.6), None)

    def test_one_without_our_routes_is_refused_with_the_remedy(self):
        with (
            far_side(lambda handler, path, body: send(handler, b"", 404)) as url,
            pytest.raises(InputError, match=r"status 404.*is it a server of the dialect search_r1"),
        ):
            http.build(http.Config((url,)), None)


def r1(*documents):
    return {"result": [[{"document": d, "score": s} for d, s in documents]]}


class TestSearchR1sOwnServer:
    """It has no fingerprint, breaks ties by position, may repeat documents, may give no ids."""

    def search(self, answer, queries=("radium",), k=3):
        def script(handler, path, body):
            assert path == "/retrieve" and body["return_scores"] is True
            send_json(handler, answer if body["queries"] else {"result": []})

        with far_side(script) as url, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            client = http.build(http.Config((url,), "search_r1", **QUICK), None)
            found = [client.search(list(queries), k) for _ in range(2)]
            assert found[0] == found[1]
            assert client.fingerprint == "unknown"
            assert [str(w.message) for w in caught] == [
                f"{url} does not say which corpus it serves: results cannot be checked against one"
            ]
        return found[0]

    def test_ties_are_put_in_order_and_repeats_dropped(self):
        a, b = {"id": "a", "contents": '"A"\na'}, {"id": "b", "contents": '"B"\nb\nc'}
        (hits,) = self.search(r1((b, 2), (a, 2.0), (b, 2), ({"id": 7, "contents": "no title"}, 3)))
        assert [(h.passage, h.score, h.rank) for h in hits] == [
            (Passage("7", "no title", ""), 3.0, 1),
            (Passage("a", "A", "a"), 2.0, 2),
            (Passage("b", "B", "b\nc"), 2.0, 3),
        ]

    def test_a_document_without_an_id_gets_one_from_its_text(self):
        (hits,) = self.search(r1(({"contents": '"A"\na'}, 2), ({"contents": '"B"\nb'}, 1)))
        assert len({hit.passage.id for hit in hits}) == 2
        # sha256 of '"A"\na', first 32 digits: by sha256sum.
        assert hits[0].passage.id == "sha256:8a268216cf0589a1969a3bbbd18f4d97"

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            ({"result": []}, "0 answers to 1 queries"),
            ({"results": [[]]}, "result is no list of lists"),
            ({"result": [[{"id": "a", "contents": "c"}]]}, "a document is no object"),
            (r1(({"id": "a"}, 1)), "contents is no text"),
            (r1(({"id": [], "contents": "c"}, 1)), "the id of a document is no text"),
            (r1(({"id": "a", "contents": "c"}, None)), "a score is no number"),
        ],
    )
    def test_anything_else_is_a_retrieval_error(self, answer, reason):
        with pytest.raises(RetrievalError, match=reason):
            self.search(answer)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"urls": ("localhost:8000",)}, "'localhost:8000' is no server's URL"),
        ({"urls": ("ftp://x",)}, "is no server's URL"),
        ({"urls": ("http://x:99999",)}, "is no server's URL"),
        ({"urls": ("http://x/?index=a",)}, "is no server's URL"),
        ({"dialect": "klingon"}, "dialect is 'klingon'; choose one of native, search_r1"),
        ({"dialect": "search_r1", "index": "x"}, "index goes with the dialect native"),
        ({"attempts": 0}, "attempts is 0: give at least 1"),
        ({"read_s": 0.0}, "read_s is 0.0: give more than 0 seconds"),
        ({"total_s": float("nan")}, "total_s is nan: give more than 0 seconds"),
    ],
)
def test_a_wrong_setting_is_named(fields, reason):
    with pytest.raises(InputError, match=reason.replace("(", "\\(")):
        http.Config(**fields)


def test_without_a_url_it_is_not_built():
    with pytest.raises(InputError, match=r"retriever\.urls is missing"):
        http.build(http.Config(), None)
