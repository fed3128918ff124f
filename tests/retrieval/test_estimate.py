import json
import types
from pathlib import Path

import pytest

from retrieval import estimate, plugins
from retrieval.errors import InputError
from retrieval.estimate import Needs
from retrieval.index import build_index
from retrieval.retrievers import bm25s, lucene


def corpus_file(folder, count, words=20):
    file = folder / f"{count}.jsonl"
    with file.open("w") as out:
        for number in range(count):
            text = " ".join(f"w{(number * 7 + word * 11) % 5000}" for word in range(words))
            out.write(json.dumps({"id": str(number), "title": "", "text": text}) + "\n")
    return file


def test_a_line_through_two_samples():
    # 10 + 2 per passage: 12 of one, 16 of three, 210 of a hundred.
    assert estimate._extrapolate([1, 3], [12, 16], 100) == 210
    assert estimate._extrapolate([1, 3], [16, 12], 100) == 12, "never below the larger sample"
    assert estimate._extrapolate([7], [5], 7) == 5


def test_disk_is_what_the_build_takes(tmp_path):
    """Passages are all alike, so the line is exact but for the vocabulary; within 5 %."""
    corpus = corpus_file(tmp_path, 10_000)
    needs = estimate.estimate(corpus, "bm25s", bm25s.Config())
    assert needs.passages == 10_000 and "1,000 and 4,000" in needs.note
    build_index(corpus, tmp_path / "x", "bm25s", bm25s.Config())
    disk = sum(file.stat().st_size for file in (tmp_path / "x").rglob("*") if file.is_file())
    assert needs.disk_bytes == pytest.approx(disk, rel=0.05)
    # A Python process with numpy takes 30 MB at least; ten thousand passages are not 500 MB.
    assert 30e6 < needs.memory_bytes < 500e6
    assert needs.seconds > 0


def test_the_memory_of_this_process_is_not_the_builds(tmp_path):
    ballast = b"x" * 700_000_000
    needs = estimate.estimate(corpus_file(tmp_path, 30), "bm25s", bm25s.Config())
    assert needs.memory_bytes < 500e6 < len(ballast)


def test_a_corpus_smaller_than_the_samples_is_built_whole(tmp_path):
    needs = estimate.estimate(corpus_file(tmp_path, 30), "bm25s", bm25s.Config())
    assert needs.passages == 30 and needs.note == "measured on 30 passages"


def test_the_settings_reach_the_samples(tmp_path):
    """Stop words are half of the terms."""
    file = tmp_path / "c.jsonl"
    text = " ".join(f"the w{number} of x{number}" for number in range(20))
    file.write_text(
        "".join(json.dumps({"id": str(n), "title": "", "text": text}) + "\n" for n in range(500))
    )
    plain, stop = (
        estimate.estimate(file, "bm25s", bm25s.Config(analyzer=name)).disk_bytes
        for name in ("plain", "stop")
    )
    # Two more terms in each of 500 passages: 12 bytes each (float64 and int32).
    assert plain - stop == pytest.approx(500 * 2 * 12, rel=0.1)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_corpus_is_refused(tmp_path, text):
    (tmp_path / "c.jsonl").write_text(text)
    with pytest.raises(InputError, match="no passages"):
        estimate.estimate(tmp_path / "c.jsonl", "bm25s", bm25s.Config())


def test_a_sample_that_cannot_be_built_says_why(tmp_path):
    (tmp_path / "c.jsonl").write_text('{"id": "a", "title": "", "text": "?"}\n')
    with pytest.raises(InputError, match=r"of 1 passages failed: .*no passage has a term"):
        estimate.estimate(tmp_path / "c.jsonl", "bm25s", bm25s.Config())


def test_an_engine_may_say_it_itself(tmp_path, monkeypatch):
    asked = []

    def own(config, corpus, passages):
        asked.append((config, corpus, passages))
        return Needs(passages, 1.0, 2.0, 3.0, "own")

    module = types.SimpleNamespace(estimate=own)
    monkeypatch.setattr(plugins, "load", lambda package, name: module)
    corpus = corpus_file(tmp_path, 12)
    assert estimate.estimate(corpus, "own", "config").note == "own"
    assert asked == [("config", corpus, 12)]


def test_lucene_takes_no_more_than_javas_heap(tmp_path, monkeypatch):
    huge = Needs(21_000_000, 90e9, 10e9, 1e4, "sampled")
    monkeypatch.setattr(lucene, "measured", lambda *arguments: huge)
    needs = lucene.estimate(lucene.Config(), tmp_path / "c", 21_000_000)
    assert 2**31 < needs.memory_bytes < 3e9
    assert (needs.disk_bytes, needs.passages) == (10e9, 21_000_000)


def test_the_report_names_what_does_not_fit(monkeypatch):
    monkeypatch.setattr(estimate, "memory_free", lambda: 8_000_000_000)
    monkeypatch.setattr(estimate, "disk_free", lambda folder: 1_000_000_000)
    needs = Needs(1_000_000, 4e9, 2e9, 7300, "how")
    assert needs.report(Path("x")).splitlines() == [
        "passages  1,000,000",
        "memory    4.00 GB of 8.00 GB free: fits",
        "disk      2.00 GB of 1.00 GB free: DOES NOT FIT",
        "time      about 2.0 h",
        "(how)",
    ]
    assert not needs.fits(Path("x"))
    assert Needs(1, 8e9, 1e9, 1, "").fits(Path("x"))
    assert not Needs(1, 8.1e9, 1e9, 1, "").fits(Path("x"))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (120, "2.0 min"), (7200, "2.0 h")]
)
def test_durations(seconds, text):
    assert estimate._duration(seconds) == text


def test_what_is_free_is_measured(tmp_path):
    assert 0 < estimate.memory_free() < 1e15
    there, not_yet = estimate.disk_free(tmp_path), estimate.disk_free(tmp_path / "a" / "b")
    assert there > 0 and not_yet == pytest.approx(there, rel=0.2)
