"""The server's benchmark runs, and its sides answer alike."""

from benchmarks import serve
from retrieval.index import build_index
from retrieval.retrievers import bm25s
from retrieval.store import PASSAGES, write_store
from tests.retrieval.server.passages import CORPUS


def test_all_sides_answer_alike_and_are_measured(tmp_path, capsys) -> None:
    write_store(CORPUS.passages, tmp_path)
    build_index(tmp_path / PASSAGES, tmp_path / "index", "bm25s", bm25s.Config())
    index = str(tmp_path / "index")
    serve.main(["--index", index, "--count", "40", "--clients", "4", "--repetitions", "1"])
    head, columns, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith(f"{index}: bm25s, 7 passages; k = 3, 4 clients, 40 queries")
    assert columns.split() == ["queries/s", "(range)", "p50", "ms", "p99", "ms", "relative"]
    sides = [serve.PROCESS, serve.BATCHED, *serve.SERVERS]
    assert [line[:28].strip() for line in lines] == sides
    assert lines[0].split()[-1] == "1.00"


def test_percentiles_and_rates() -> None:
    # 100 requests of 1 to 100 ms in 2 s: the places floor(0.5 * 99) and floor(0.99 * 99).
    measured = serve.Measured.of([n / 1000 for n in range(100, 0, -1)], 100, 2.0)
    assert (measured.rate, measured.p50_ms, measured.p99_ms) == (50.0, 50.0, 99.0)
