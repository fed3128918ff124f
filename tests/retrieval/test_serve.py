"""The command: what it prints, what it refuses, what it says of itself."""

import socket

import pytest

from retrieval.index import build_index
from retrieval.retrievers import bm25s, rank_bm25
from retrieval.serve import main
from retrieval.server.limits import Limits
from retrieval.server.served import open_served
from retrieval.store import PASSAGES, write_store
from tests.retrieval.server.passages import CORPUS
from tests.retrieval.serving import serving


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A corpus file and two indexes of it, in folders of the same name."""
    root = tmp_path_factory.mktemp("indexes")
    write_store(CORPUS.passages, root)
    for name, config in (("bm25s", bm25s.Config()), ("rank_bm25", rank_bm25.Config())):
        (root / name).mkdir()
        build_index(root / PASSAGES, root / name / "wiki", name, config)
    return root


def test_several_indexes_on_one_port(folders):
    indexes = [str(folders / name / "wiki") for name in ("bm25s", "rank_bm25")]
    corpus = ("--retriever", "bm25s", "--corpus", str(folders / PASSAGES))
    with serving("--index", indexes[0], "--index", indexes[1], *corpus) as server:
        shown = "wiki: bm25s, 7 passages; wiki-2: rank_bm25, 7 passages; bm25s: bm25s, 7 passages"
        assert server.ready == f"{server.url}  {shown}\n"
        info = server.ask("GET", "/info")[2]
        names = [(one["index"], one["engine"], one["passages"]) for one in info["indexes"]]
        assert names == [("wiki", "bm25s", 7), ("wiki-2", "rank_bm25", 7), ("bm25s", "bm25s", 7)]
        assert {one["fingerprint"] for one in info["indexes"]} == {CORPUS.fingerprint}
        assert "bm25s" in info["versions"] and info["limits"]["max_k"] == Limits().max_k
        assert server.ask("GET", "/info?index=wiki-2")[2]["engine"] == "rank_bm25"

        for index, engine in (("wiki", bm25s), ("wiki-2", rank_bm25)):
            (hits,) = engine.build(engine.Config(), CORPUS).search(["radium in Paris"], 3)
            expected = [(hit.passage.id, hit.score) for hit in hits]
            body = {"queries": ["radium in Paris"], "k": 3}
            answer = server.ask("POST", f"/api/search?index={index}", body)[2]["answers"]
            assert [(hit["id"], hit["score"]) for hit in answer[0]] == expected
            path = f"/v1/{index}/search?query=radium+in+Paris&hits=3"
            candidates = server.ask("GET", path)[2]["candidates"]
            assert [(hit["docid"], hit["score"]) for hit in candidates] == expected

        metrics = server.ask("GET", "/metrics")[2]
        assert 'retrieval_requests_total{dialect="native",status="200"} 2.0' in metrics
        assert 'retrieval_batch_queries_sum{index="wiki-2"} 2.0' in metrics
        assert f'fingerprint="{CORPUS.fingerprint}",index="wiki"' in metrics
        assert server.stop() == 0
        assert server.process.stdout.read() == "" and server.process.stderr.read() == ""


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "nothing to serve: give --index FOLDER"),
        (["--index", "{root}/none"], "none: no index; make one with"),
        (["--retriever", "bm25s"], "--retriever and --corpus go together"),
        (["--corpus", "c.jsonl"], "--retriever and --corpus go together"),
        (["--retriever", "nonesuch", "--corpus", "{corpus}"], "unknown name 'nonesuch'"),
        (["--retriever", "bm25s", "--corpus", "{root}/none.jsonl"], "none.jsonl"),
        (["--port", "70000", "--index", "x"], "port is 70000: give 0 to 65535"),
        (["--port", "many"], "port is many; give a value of type int"),
        (["--host", "256.1.1.1"], "host '256.1.1.1': no such address"),
        (["--limits.max_kk", "3"], "limits.max_kk: unknown key. Did you mean limits.max_k?"),
        (["--limits.max_k", "0"], "max_k is 0: give at least 1"),
        (["--limits.default_k", "2000"], "default_k is 2000: it must not exceed max_k, 1000"),
        (["--limits.timeout_s", "0"], "timeout_s is 0.0: give at least 0.001"),
        (["--limits.batch_wait_ms", "inf"], "batch_wait_ms is inf"),
    ],
)
def test_a_wrong_command_is_one_line_and_status_2(folders, arguments, reason, capsys):
    given = [a.format(root=folders, corpus=folders / PASSAGES) for a in arguments]
    if "--port" not in given:
        given += ["--port", "0"]
    assert main(given) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith("serve: ") and reason in captured.err


def test_a_port_in_use_is_one_line_and_status_2(folders, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert_taken(folders, other.getsockname()[1], capsys)


def test_of_two_servers_that_load_at_once_the_second_to_be_ready_gives_way(
    folders, capsys, monkeypatch
):
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))

        def slowly(*arguments):
            other.listen()
            return open_served(*arguments)

        monkeypatch.setattr("retrieval.serve.open_served", slowly)
        assert_taken(folders, other.getsockname()[1], capsys)


def assert_taken(folders, port, capsys):
    corpus = ["--retriever", "bm25s", "--corpus", str(folders / PASSAGES)]
    assert main([*corpus, "--port", str(port)]) == 2
    reason = f"serve: 127.0.0.1 port {port}: Address already in use; give another --port or --host"
    assert capsys.readouterr().err == f"{reason}\n"
