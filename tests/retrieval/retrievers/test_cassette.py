import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from envs.datasets import atlas
from retrieval.compose import needs_corpus
from retrieval.corpus import Corpus
from retrieval.errors import InputError, RetrievalError
from retrieval.index import build_index
from retrieval.retrievers import bm25s, cassette
from retrieval.store import write_store
from retrieval.types import Passage

ROOT = Path(__file__).parents[3]
WORLD = atlas.build(atlas.Config(people=40, limit=60))
CORPUS = Corpus.of(WORLD.passages)
OTHER = Corpus.of(WORLD.passages[1:])
QUERIES = [question.text for question in WORLD.questions]
ODD = ["", "?!", "café Москва 東京", "a\ud800b radium", "line\nbreak \u2028 \x00", '"quoted" \\']
ENGINE = bm25s.build(bm25s.Config(), CORPUS)


def record(file: Path, queries=QUERIES, k=5, mode="auto"):
    engine = cassette.build(cassette.Config(str(file), mode, "bm25s"), CORPUS)
    return engine, engine.search(queries, k)


def replay(file: Path, of=""):
    return cassette.build(cassette.Config(str(file), of=of), CORPUS if of else None)


def test_a_replay_gives_the_same_bits_without_corpus_or_engine(tmp_path):
    file = tmp_path / "a.jsonl"
    _, answers = record(file, [*QUERIES, *ODD], 10)
    assert answers == ENGINE.search([*QUERIES, *ODD], 10)
    assert not needs_corpus(cassette, cassette.Config(str(file)))
    again = replay(file)
    assert again.search([*QUERIES, *ODD], 10) == answers
    assert again.fingerprint == CORPUS.fingerprint and again.misses == 0


def test_an_answer_serves_every_smaller_k_and_no_larger_one(tmp_path):
    file = tmp_path / "a.jsonl"
    record(file, k=10)
    again = replay(file)
    for k in (1, 3, 9, 10):
        assert again.search(QUERIES, k) == ENGINE.search(QUERIES, k)
    with pytest.raises(RetrievalError, match="no answer on file to 60 queries at k = 11"):
        again.search(QUERIES, 11)


def test_an_answer_recorded_for_this_very_k_is_preferred(tmp_path):
    file = tmp_path / "a.jsonl"
    record(file, ["radium"], 10)
    lines = file.read_text().splitlines()
    short = {"query": "radium", "k": 2, "hits": []}
    file.write_text("\n".join([*lines, json.dumps(short), ""]))
    assert replay(file).search(["radium"], 2) == [[]]
    assert replay(file).search(["radium"], 3) == ENGINE.search(["radium"], 3)


def test_a_miss_is_an_error_or_falls_through_and_is_counted(tmp_path):
    file = tmp_path / "a.jsonl"
    record(file, QUERIES[:10])
    before = file.read_bytes()
    alone = replay(file)
    with pytest.raises(RetrievalError, match="to 2 queries at k = 5, the first of them 'new'") as c:
        alone.search([QUERIES[0], "new", "other", "new"], 5)
    assert "record them with mode=auto and of=ENGINE" in str(c.value) and alone.misses == 2
    backed = replay(file, of="bm25s")
    assert backed.search([*QUERIES[:11], QUERIES[10]], 5) == ENGINE.search(
        [*QUERIES[:11], QUERIES[10]], 5
    )
    assert backed.misses == 1
    assert backed.search([QUERIES[10]], 5) and backed.misses == 2, "nothing is remembered"
    assert file.read_bytes() == before


def test_auto_asks_only_what_is_not_on_file(tmp_path):
    file = tmp_path / "a.jsonl"
    first, _ = record(file, QUERIES[:10])
    assert first.misses == 10
    first.search(QUERIES[:10], 5)
    first.search(QUERIES[:10], 3)
    assert first.misses == 10
    second, answers = record(file, QUERIES[:20])
    assert answers == ENGINE.search(QUERIES[:20], 5) and second.misses == 10
    # A passage stands on file once, and before the answers that hold it.
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    ids = [line["passage"]["id"] for line in lines if "passage" in line]
    assert len(set(ids)) == len(ids)
    assert sum("query" in line for line in lines) == 20
    seen = set()
    for line in lines[1:]:
        seen.update([line["passage"]["id"]] if "passage" in line else [])
        assert {identifier for identifier, _ in line.get("hits", [])} <= seen


def test_record_asks_everything_again_and_the_last_answer_counts(tmp_path):
    file = tmp_path / "a.jsonl"
    record(file, ["radium", QUERIES[0]])
    text = file.read_text().splitlines()
    query = json.dumps(QUERIES[0])
    text = [
        json.dumps({"query": QUERIES[0], "k": 5, "hits": []}) if query in line else line
        for line in text
    ]
    file.write_text("\n".join(text) + "\n")
    assert replay(file).search(QUERIES[:1], 5) == [[]]
    engine, answers = record(file, [QUERIES[0]], mode="record")
    assert answers == ENGINE.search(QUERIES[:1], 5) == replay(file).search(QUERIES[:1], 5)
    assert engine.misses == 0, "it was on file, even if it was asked again"


def test_half_a_last_line_is_dropped_wherever_it_was_cut(tmp_path):
    whole = tmp_path / "whole.jsonl"
    record(whole, QUERIES[:4])
    data = whole.read_bytes()
    # All over the file, and at the ends of its lines.
    ends = [place + 1 for place, byte in enumerate(data) if byte == ord("\n")]
    cuts = [*range(300, len(data), 251), *ends]
    for cut in cuts:
        file = tmp_path / "cut.jsonl"
        file.write_bytes(data[:cut])
        known = set()
        for line in data[:cut].decode().splitlines(keepends=True):
            parsed = json.loads(line) if line.endswith("\n") else {}
            known.update([parsed["query"]] if "query" in parsed else [])
        reader = replay(file)
        for query in QUERIES[:4]:
            if query in known:
                assert reader.search([query], 5) == ENGINE.search([query], 5)
            else:
                with pytest.raises(RetrievalError):
                    reader.search([query], 5)
        resumed, answers = record(file, QUERIES[:4])
        assert resumed.misses == 4 - len(known)
        assert answers == ENGINE.search(QUERIES[:4], 5) == replay(file).search(QUERIES[:4], 5)


def test_a_header_that_was_cut_is_begun_anew(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"format": "retrieval-casse')
    _, answers = record(file)
    assert replay(file).search(QUERIES, 5) == answers


KILLED = """
import os, signal
from tests.retrieval.retrievers.test_cassette import CORPUS, QUERIES
from retrieval import recording
from retrieval.retrievers import cassette

write, count = os.write, 0
def half(descriptor, data):
    global count
    count += 1
    if count == {number}:
        write(descriptor, data[:len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return write(descriptor, data)
recording.os.write = half
engine = cassette.build(cassette.Config({file!r}, "auto", "bm25s"), CORPUS)
for query in QUERIES:
    engine.search([query], 5)
"""


@pytest.mark.parametrize("number", [1, 2, 30])
def test_a_recorder_killed_in_the_middle_of_a_write_loses_that_write_only(tmp_path, number):
    file = tmp_path / "a.jsonl"
    code = KILLED.format(number=number, file=str(file))
    killed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert killed.returncode == -9
    engine, answers = record(file)
    # The first write is the header, each further one a query's.
    assert engine.misses == len(QUERIES) - max(0, number - 2)
    assert answers == ENGINE.search(QUERIES, 5) == replay(file).search(QUERIES, 5)


def test_two_recorders_may_append_to_one_file(tmp_path):
    file = tmp_path / "a.jsonl"
    one = cassette.build(cassette.Config(str(file), "auto", "bm25s"), CORPUS)
    two = cassette.build(cassette.Config(str(file), "auto", "bm25s"), CORPUS)
    with ThreadPoolExecutor(8) as pool:
        found = list(
            pool.map(
                lambda n: (one if n % 2 else two).search([QUERIES[n % len(QUERIES)]], 5), range(240)
            )
        )
    assert found == [ENGINE.search([QUERIES[n % len(QUERIES)]], 5) for n in range(240)]
    assert replay(file).search(QUERIES, 5) == ENGINE.search(QUERIES, 5)


def test_one_lock_lets_threads_in_one_by_one(tmp_path):
    engine, _ = record(tmp_path / "a.jsonl", [])
    inside, most, lock = 0, 0, threading.Lock()
    ask = engine._behind.search

    def watched(queries, k):
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        try:
            return ask(queries, k)
        finally:
            with lock:
                inside -= 1

    engine._behind.search = watched
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda query: engine.search([query], 5), QUERIES * 2))
    assert most == 1 and engine.misses == len(QUERIES)


def test_a_recording_of_another_corpus_or_another_engine_is_refused(tmp_path):
    file = tmp_path / "a.jsonl"
    record(file)
    for config in (cassette.Config(str(file)), cassette.Config(str(file), "auto", "bm25s")):
        with pytest.raises(InputError, match="recorded on another corpus"):
            cassette.build(config, OTHER)
    with pytest.raises(InputError, match=r"recorded from .*'bm25s'.* not from .*'rank_bm25'"):
        cassette.build(cassette.Config(str(file), "auto", "rank_bm25"), CORPUS)
    write_store(CORPUS.passages, tmp_path)
    for k1, fits in ((0.9, True), (1.2, False)):
        folder = tmp_path / f"index{k1}"
        build_index(tmp_path / "passages.jsonl", folder, "bm25s", bm25s.Config(k1=k1))
        config = cassette.Config(str(file), "auto", str(folder))
        if fits:
            assert cassette.build(config, None).search(QUERIES, 5) == ENGINE.search(QUERIES, 5)
        else:
            with pytest.raises(InputError, match=r"'k1': 0\.9"):
                cassette.build(config, None)


def header(**changes) -> str:
    known = {"format": "retrieval-cassette", "version": 1, "fingerprint": "x", "engine": None}
    return json.dumps({**known, **changes}) + "\n"


HIT = '{"query": "q", "k": 1, "hits": [["p", 1.0]]}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such recording; make one with mode=auto and of=ENGINE"),
        ("", "not a recording"),
        ('{"id": "1", "text": "a corpus"}\n', "not a recording"),
        (header(version=2), "of another version"),
        ("\x80\n", "line 1 is no JSON"),
        (header() + "{broken\n" + HIT, "line 2 is no JSON"),
        (header() + HIT, "line 2 is damaged .*'p'"),
        (header() + '{"passage": {"id": "p"}}\n', "line 2 is damaged"),
        (header() + "[]\n", "line 2 is damaged"),
        (header() + HIT.replace('[["p", 1.0]]', "7"), "line 2 is damaged"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(tmp_path, content, message):
    file = tmp_path / "a.jsonl"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=f"a.jsonl: {message}") as caught:
        replay(file)
    assert "\n" not in str(caught.value)
    assert content is None or file.read_text(encoding="utf-8") == content


def test_a_corpus_is_not_taken_for_a_recording_to_append_to(tmp_path):
    file = tmp_path / "corpus.jsonl"
    file.write_text('{"id": "1", "title": "", "text": "x"}\n')
    with pytest.raises(InputError, match="not a recording"):
        record(file)
    assert file.read_text() == '{"id": "1", "title": "", "text": "x"}\n'


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "play"}, "mode is 'play'; choose one of replay, record, auto"),
        ({"path": "x", "mode": "auto"}, "of is empty: to auto, name the engine"),
        ({"path": "x", "mode": "record"}, "of is empty: to record, name the engine"),
        ({}, "path is missing"),
    ],
)
def test_a_wrong_setting_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        cassette.build(cassette.Config(**settings), None)


def test_a_path_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        record(tmp_path / "file" / "a.jsonl")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        record(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        replay(tmp_path)


def test_a_full_disk_is_a_retrieval_error_and_nothing_is_remembered(tmp_path, monkeypatch):
    engine, _ = record(tmp_path / "a.jsonl", [])

    def full(descriptor, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("retrieval.recording.os.write", full)
        with pytest.raises(RetrievalError, match=r"cannot be written \(No space left"):
            engine.search(QUERIES[:1], 5)
    assert engine.search(QUERIES[:1], 5) == ENGINE.search(QUERIES[:1], 5)
    assert engine.misses == 2


def test_scores_come_back_bit_by_bit(tmp_path):
    file = tmp_path / "a.jsonl"
    # Sums that no short decimal writes: 0.1 + 0.2, the smallest float, a float32 from a server.
    scores = [1e300, 0.1 + 0.2, 0.10000000149011612, 5e-324]
    record(file, [])
    with file.open("a") as out:
        for number in range(4):
            passage = {"id": f"p{number}", "title": "", "text": "x"}
            out.write(json.dumps({"passage": passage}) + "\n")
        hits = [[f"p{number}", score] for number, score in enumerate(scores)]
        out.write(json.dumps({"query": "q", "k": 4, "hits": hits}) + "\n")
    (found,) = replay(file).search(["q"], 4)
    assert [hit.score.hex() for hit in found] == [score.hex() for score in scores]
    assert found[3].passage == Passage("p3", "", "x")
