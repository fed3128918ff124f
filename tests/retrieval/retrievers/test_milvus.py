"""Milvus Lite in a file, and its server over the network: what is found, kept, refused, resumed."""

import base64
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import faiss
import grpc
import numpy as np
import pytest

from envs.datasets import atlas
from retrieval import milvus_collection
from retrieval.compose import needs_corpus
from retrieval.corpus import Corpus
from retrieval.encoders import load_encoder, recipe_for
from retrieval.errors import InputError, RetrievalError
from retrieval.fusion import by_reciprocal_rank
from retrieval.index import build_index, open_index
from retrieval.isolate import Isolated
from retrieval.milvus_collection import connect, count, release
from retrieval.retrievers import bm25s, milvus
from retrieval.store import write_store
from retrieval.types import Passage

ROOT = Path(__file__).parents[3]
WORLD = atlas.build(atlas.Config(people=60, limit=40))
CORPUS = Corpus.of(WORLD.passages)
OTHER = Corpus.of(WORLD.passages[:-1])
FEW = Corpus.of(WORLD.passages[:120])
QUERIES = [question.text for question in WORLD.questions]


def at(folder: Path, **settings) -> milvus.Config:
    return milvus.Config(uri=str(folder / "w.db"), **settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("milvus")


@pytest.fixture(scope="module")
def full_text(folder):
    return milvus.build(at(folder), CORPUS)


@pytest.fixture(scope="module")
def dense(folder):
    return milvus.build(at(folder, mode="dense", collection="dense"), FEW)


def test_full_text_is_bm25_as_bm25s_computes_it(full_text):
    other = bm25s.build(bm25s.Config(), CORPUS)
    everything = other.search(QUERIES, len(CORPUS.passages))
    for hits, expected in zip(full_text.search(QUERIES, 10), everything, strict=True):
        # Milvus keeps Robertson's constant factor (k1 + 1), which bm25s leaves out as Lucene does.
        scores = {hit.passage: 1.9 * hit.score for hit in expected}
        assert len(hits) == min(10, len(expected))
        for hit, better in zip(hits, expected, strict=False):
            # float32, of sums up to 40: six digits, of which five are kept.
            assert hit.score == pytest.approx(scores[hit.passage], abs=2e-5)
            assert hit.score == pytest.approx(1.9 * better.score, abs=2e-5)


def test_flat_search_is_that_of_faiss_and_of_numpy(dense):
    encoder = load_encoder(recipe_for("embedded"))
    vectors = encoder.encode_passages(FEW.passages, 32)
    asked = encoder.encode_queries(QUERIES, 1)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    _, by_faiss = index.search(asked, 10)
    exact = asked.astype(np.float64) @ vectors.T.astype(np.float64)
    for hits, found, row in zip(dense.search(QUERIES, 10), by_faiss, exact, strict=True):
        best = np.sort(row)[::-1][:10]
        assert [hit.score for hit in hits] == pytest.approx(best, abs=2e-5)
        # The same passages in the same order, but for those within rounding of each other.
        for hit, position in zip(hits, found, strict=True):
            if hit.passage != FEW.passages[position]:
                place = FEW.passages.index(hit.passage)
                assert row[place] == pytest.approx(row[position], abs=2e-5)


def test_hybrid_is_the_reciprocal_rank_fusion_of_both(folder, dense):
    hybrid = milvus.build(at(folder, mode="hybrid", collection="hybrid"), FEW)
    few_text = milvus.build(at(folder, collection="few"), FEW)
    parts = zip(few_text.search(QUERIES, 100), dense.search(QUERIES, 100), strict=True)
    assert hybrid.search(QUERIES, 5) == [by_reciprocal_rank(pair, (1, 1), 5) for pair in parts]
    assert hybrid.search(["", "?!"], 5) == [[], []]


def test_vectors_need_a_word_to_search_for(dense):
    assert dense.search(["", "\n", "?!", "\ud800"], 3) == [[], [], [], []]
    assert len(dense.search(["\ud800 zzyzx \x00"], 3)[0]) == 3


def test_ties_are_broken_by_id_however_many_there_are(tmp_path):
    # Many more copies than hits are fetched at first, their ids in another order than the rows.
    ids = [f"{number * 37 % 500:03d}" for number in range(500)]
    copies = Corpus.of([Passage(i, "Heron", "A heron by the river.") for i in ids])
    engine = milvus.build(at(tmp_path), copies)
    (hits,) = engine.search(["heron"], 3)
    assert [hit.passage.id for hit in hits] == ["000", "001", "002"]
    assert len(engine.search(["heron"], 1000)[0]) == 500


def test_threads_may_share_it(full_text):
    expected = full_text.search(QUERIES, 3)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda query: full_text.search([query], 3)[0], QUERIES))
    assert found == expected


def stamps(folder: Path) -> dict[str, int]:
    return {str(f): f.stat().st_mtime_ns for f in folder.rglob("*.parquet")}


def test_a_whole_collection_is_opened_without_inserting_and_needs_no_corpus(tmp_path):
    config = at(tmp_path)
    assert needs_corpus(milvus, config)
    first = milvus.build(config, CORPUS)
    expected = first.search(QUERIES, 3)
    first.close()
    release(config.uri)
    before = stamps(tmp_path)
    assert before and not needs_corpus(milvus, config)
    for corpus in (None, CORPUS):
        again = milvus.build(config, corpus)
        assert again.fingerprint == CORPUS.fingerprint
        assert again.search(QUERIES, 3) == expected
    assert stamps(tmp_path) == before


def test_a_file_filled_in_one_process_is_searched_in_another(tmp_path, full_text):
    config = at(tmp_path)
    for corpus in (CORPUS, None):
        # This process never opens the file, not even to see whether it needs the corpus.
        assert needs_corpus(milvus, config) is (corpus is not None)
        apart = Isolated("milvus", config, corpus)
        assert apart.fingerprint == CORPUS.fingerprint
        assert apart.search(QUERIES, 3) == full_text.search(QUERIES, 3)
        apart.close()


@pytest.mark.parametrize(
    ("settings", "corpus", "message"),
    [
        ({}, OTHER, "'passages' is of another corpus"),
        ({"k1": 1.2}, CORPUS, "was made with {'k1': 0.9}"),
        ({"analyzer": "plain"}, None, "was made with {'analyzer': 'english'}"),
        ({"mode": "hybrid"}, CORPUS, "was made with {'mode': 'bm25'"),
        ({"collection": "absent"}, None, "'absent' is not whole: give the corpus"),
        ({"collection": "foreign"}, CORPUS, "'foreign' holds something else"),
    ],
)
def test_another_collection_than_asked_for_is_refused(folder, full_text, settings, corpus, message):
    client = connect(str(folder / "w.db"), 10)
    if not client.has_collection("foreign"):
        client.create_collection("foreign", dimension=4)
    rows = count(client, "passages")
    with pytest.raises(InputError) as caught:
        milvus.build(at(folder, **settings), corpus)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert count(client, "passages") == rows == len(CORPUS.passages)


def test_too_long_a_text_is_named(tmp_path):
    long = Corpus.of([Passage("short", "", "x"), Passage("long", "", "é" * 32_768)])
    with pytest.raises(InputError, match="passage 'long': its text has more than 65535 bytes"):
        milvus.build(at(tmp_path), long)


KILLED = """
import os, signal, sys
from retrieval.corpus import Corpus
from retrieval import milvus_collection
from retrieval.retrievers import milvus
from retrieval.store import PassageStore
from pathlib import Path

milvus_collection.BATCH_ROWS = 100

class Deadly(PassageStore):
    def __getitem__(self, index):
        if isinstance(index, slice) and index.start == {batches} * 100:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)

corpus = Corpus(Deadly(Path({store!r})), {fingerprint!r})
milvus.build(milvus.Config(uri={uri!r}), corpus)
"""


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_killed_fill_is_gone_on_with(tmp_path, full_text, batches, monkeypatch):
    monkeypatch.setattr(milvus_collection, "BATCH_ROWS", 100)
    assert 200 < len(CORPUS.passages) < 300
    write_store(CORPUS.passages, tmp_path)
    config = at(tmp_path)
    script = KILLED.format(
        batches=batches, store=str(tmp_path), fingerprint=CORPUS.fingerprint, uri=config.uri
    )
    killed = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(InputError, match="not whole: give the corpus"):
        milvus.build(config, None)
    client = connect(config.uri, 10)
    assert needs_corpus(milvus, config)
    assert count(client, "passages") == batches * 100
    resumed = milvus.build(config, CORPUS)
    assert count(client, "passages") == len(CORPUS.passages)
    assert resumed.search(QUERIES, 5) == full_text.search(QUERIES, 5)


def test_an_index_folder_holds_the_file(tmp_path, full_text):
    write_store(CORPUS.passages, tmp_path)
    build_index(tmp_path / "passages.jsonl", tmp_path / "index", "milvus", milvus.Config())
    assert (tmp_path / "index/engine/passages.db").is_dir()
    opened = open_index(tmp_path / "index", CORPUS)
    assert opened.retriever.search(QUERIES, 5) == full_text.search(QUERIES, 5)


def test_a_temporary_file_is_gone_when_the_program_ends(tmp_path):
    code = (
        "from retrieval.corpus import Corpus; from retrieval.types import Passage\n"
        "from retrieval.retrievers import milvus\n"
        "engine = milvus.build(milvus.Config(), Corpus.of([Passage('a', '', 'heron')]))\n"
        "print(engine.search(['heron'], 1)[0][0].passage.id)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "a\n" and not list(tmp_path.iterdir())


def test_a_file_that_another_process_has_open_is_refused(tmp_path):
    config = at(tmp_path)
    code = textwrap.dedent(f"""
        from retrieval.milvus_collection import connect
        client = connect({config.uri!r}, 10)
        print("open", flush=True)
        input()
    """)
    other = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(InputError, match="it may be open in another process"):
            milvus.build(config, CORPUS)
    finally:
        other.communicate("\n", timeout=30)
    assert milvus.build(config, CORPUS).search(["zzyzx"], 1) == [[]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, subprocess.Popen]]:
    """Milvus Lite's server in a process of its own, as a cluster is reached: over the network."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "milvus_lite", "server"),
        *("--data-dir", str(folder), "--port", str(port)),
    ]
    with (folder.parent / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()


def test_a_server_answers_alike_and_its_death_is_a_retrieval_error(tmp_path, full_text):
    with server(tmp_path / "data") as (uri, process):
        config = milvus.Config(uri=uri, timeout_s=10)
        assert needs_corpus(milvus, config)
        engine = milvus.build(config, CORPUS)
        assert engine.search(QUERIES, 5) == full_text.search(QUERIES, 5)
        assert not needs_corpus(milvus, config)
        assert milvus.build(config, None).search(QUERIES, 5) == engine.search(QUERIES, 5)
        process.kill()
        process.wait()
        with pytest.raises(RetrievalError, match=f"milvus at {uri}: "):
            engine.search(QUERIES[:1], 5)
    with pytest.raises(InputError, match=f"uri: {uri} cannot be opened .* start the server"):
        milvus.build(config, CORPUS)
    with pytest.raises(InputError, match="start the server"):
        needs_corpus(milvus, config)


def test_the_token_comes_from_the_environment(monkeypatch):
    seen = []

    class Listen(grpc.GenericRpcHandler):
        def service(self, details):
            seen.extend(
                value for key, value in details.invocation_metadata if key.startswith("auth")
            )

    listener = grpc.server(ThreadPoolExecutor(1))
    listener.add_generic_rpc_handlers([Listen()])
    port = listener.add_insecure_port("127.0.0.1:0")
    listener.start()
    monkeypatch.setenv("MILVUS_TOKEN", "user:secret")
    with pytest.raises(InputError) as caught:
        milvus.build(milvus.Config(uri=f"http://127.0.0.1:{port}", timeout_s=5), CORPUS)
    listener.stop(None)
    assert seen and {base64.b64decode(value).decode() for value in seen} == {"user:secret"}
    assert "secret" not in str(caught.value)
    assert not [field.name for field in fields(milvus.Config) if "token" in field.name]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"uri": "wiki"}, "uri is 'wiki': give a path that ends in .db, or http"),
        ({"uri": "ftp://host"}, "uri is 'ftp://host'"),
        ({"mode": "sparse"}, "mode is 'sparse'; choose one of bm25, dense, hybrid"),
        ({"index": "PQ"}, "index is 'PQ'; choose one of FLAT, HNSW"),
        ({"collection": "a-b"}, "collection is 'a-b': use letters"),
        ({"k1": 0.0}, "k1 is 0.0: Milvus takes more than 0"),
        ({"b": 1.5}, "b is 1.5"),
        ({"analyzer": "german"}, "analyzer is 'german'"),
        ({"timeout_s": 0.0}, "timeout_s is 0.0"),
    ],
)
def test_a_wrong_setting_is_refused(settings, message):
    with pytest.raises(InputError, match=f"^{message}"):
        milvus.Config(**settings)


def test_an_unknown_encoder_is_refused(tmp_path):
    with pytest.raises(InputError, match="/no/such/model"):
        milvus.build(at(tmp_path, mode="dense", encoder="/no/such/model"), CORPUS)


def test_naming_it_loads_neither_pymilvus_nor_torch():
    code = (
        "import sys, retrieval.retrievers.milvus as m; m.Config()\n"
        "sys.exit(any(n in sys.modules for n in ('pymilvus', 'milvus_lite', 'torch', 'faiss')))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
