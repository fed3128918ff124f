"""An engine in another process: the same answers, typed errors, deaths, restarts, a clean end."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from envs.datasets import atlas
from retrieval.corpus import Corpus
from retrieval.errors import InputError, RetrievalError
from retrieval.index import build_index
from retrieval.isolate import MAX_DEATHS, Isolated
from retrieval.retrievers import bm25s, hybrid, index
from retrieval.store import write_store
from tests.retrieval import moody

ROOT = Path(__file__).parents[2]
MOODY = "tests.retrieval.moody"
WORLD = atlas.build(atlas.Config(people=40, limit=40))
CORPUS = Corpus.of(WORLD.passages)
QUERIES = [*(question.text for question in WORLD.questions), "", "a\ud800", "zzyzx"]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie has ended.
    return " Z " not in Path(f"/proc/{pid}/stat").read_text().partition(")")[2][:4]


@pytest.fixture
def engine():
    made = Isolated(MOODY, moody.Config(), CORPUS)
    yield made
    made.close()


def pid_of(engine: Isolated) -> int:
    return int(engine.search(["pid"], 1)[0][0].passage.text)


@pytest.mark.parametrize("name", ["bm25s", "hybrid"])
def test_the_answers_are_those_of_the_engine_in_this_process(name):
    module = {"bm25s": bm25s, "hybrid": hybrid}[name]
    isolated = Isolated(name, module.Config(), CORPUS)
    assert isolated.search(QUERIES, 5) == module.build(module.Config(), CORPUS).search(QUERIES, 5)
    assert isolated.search([], 5) == [] and isolated.fingerprint == CORPUS.fingerprint
    isolated.close()


def test_an_index_folder_is_opened_there_and_says_what_it_searches(tmp_path):
    write_store(CORPUS.passages, tmp_path)
    build_index(tmp_path / "passages.jsonl", tmp_path / "index", "bm25s", bm25s.Config())
    isolated = Isolated("index", index.Config(str(tmp_path / "index")))
    assert isolated.fingerprint == CORPUS.fingerprint
    assert isolated.search(QUERIES, 3) == bm25s.build(bm25s.Config(), CORPUS).search(QUERIES, 3)
    isolated.close()


def test_it_is_another_interpreter_that_shares_no_module(engine):
    assert pid_of(engine) != os.getpid()
    # `tests.retrieval.moody` imports neither; this process has both.
    assert "pytest" in sys.modules
    assert engine.search(["modules"], 1)[0][0].passage.text == "[]"


@pytest.mark.parametrize(
    ("query", "kind", "message"),
    [
        ("input", InputError, "^the query is wrong$"),
        ("retrieval", RetrievalError, "^no answer within 5 s$"),
        ("os", RetrievalError, "^.Errno 104. reset by peer$"),
        ("bug", RuntimeError, "Traceback(.|\n)*KeyError: 'oops'"),
    ],
)
def test_errors_keep_their_type_and_the_process_lives_on(engine, query, kind, message):
    pid = pid_of(engine)
    with pytest.raises(kind, match=message) as caught:
        engine.search([query], 1)
    assert type(caught.value) is kind
    assert pid_of(engine) == pid
    with pytest.raises(InputError, match="k is 0"):
        engine.search(["x"], 0)


def test_a_death_fails_that_search_and_the_next_one_starts_another(engine):
    first = pid_of(engine)
    with pytest.raises(RetrievalError, match="its process ended with exit code 7; the next search"):
        engine.search(["exit 7"], 1)
    second = pid_of(engine)
    assert second != first and not alive(first)
    os.kill(second, signal.SIGKILL)
    with pytest.raises(RetrievalError, match="exit code -9"):
        engine.search(["pid"], 1)
    assert pid_of(engine) not in (first, second)


def test_deaths_without_an_answer_between_them_are_bounded(engine):
    for _ in range(MAX_DEATHS - 1):
        with pytest.raises(RetrievalError, match="exit code 7"):
            engine.search(["exit 7"], 1)
    assert pid_of(engine)  # an answer: the count begins anew
    for _ in range(MAX_DEATHS):
        with pytest.raises(RetrievalError, match="exit code 7"):
            engine.search(["exit 7"], 1)
    for _ in range(2):
        with pytest.raises(RetrievalError, match=f"died {MAX_DEATHS} times in a row; restart"):
            engine.search(["pid"], 1)


def test_a_search_that_takes_too_long_is_ended():
    engine = Isolated(MOODY, moody.Config(), CORPUS, timeout_s=0.5)
    pid = pid_of(engine)
    with pytest.raises(RetrievalError, match=r"no answer within 0\.5 s; the next search starts"):
        engine.search(["sleep"], 1)
    assert not alive(pid) and pid_of(engine) != pid
    engine.close()


def test_an_interrupted_search_leaves_no_answer_for_the_next_one(engine):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            engine.search(["slowly first"], 1)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert engine.search(["slowly second"], 1)[0][0].passage.text == "slowly second"


@pytest.mark.parametrize(
    ("at_build", "kind", "message"),
    [
        ("input", InputError, "^the setting is wrong$"),
        ("bug", RuntimeError, "KeyError: 'oops'"),
        ("exit", RetrievalError, "ended with exit code 9"),
    ],
)
def test_an_engine_that_cannot_be_built_says_why(at_build, kind, message):
    with pytest.raises(kind, match=message):
        Isolated(MOODY, moody.Config(at_build), CORPUS)


def test_an_unknown_engine_is_an_input_error():
    with pytest.raises(InputError, match="unknown name 'bm52'"):
        Isolated("bm52", bm25s.Config(), CORPUS)


def test_threads_get_their_own_answers(engine):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: engine.search([f"echo {n}"], 1), range(100)))
    assert [hits[0].passage.text for (hits,) in found] == [f"echo {n}" for n in range(100)]


def test_it_ends_when_it_is_closed_or_dropped():
    for end in (Isolated.close, lambda _: None):
        engine = Isolated(MOODY, moody.Config(), CORPUS)
        pid = pid_of(engine)
        assert alive(pid)
        end(engine)
        del engine
        assert not alive(pid)


PARENT = """
import os, signal, sys
from tests.retrieval import moody
from retrieval.corpus import Corpus
from retrieval.isolate import Isolated
from retrieval.types import Passage

if __name__ == "__main__":
    corpus = Corpus.of([Passage("a", "", "x")])
    engine = Isolated("tests.retrieval.moody", moody.Config("note:" + sys.argv[1]), corpus)
    print(engine.search(["pid"], 1)[0][0].passage.text, flush=True)
    {end}
"""


@pytest.mark.parametrize("end", ["pass", "sys.exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_it_ends_in_order_with_its_program_however_that_ends(tmp_path, end):
    script, note = tmp_path / "parent.py", tmp_path / "note"
    script.write_text(PARENT.format(end=end))
    done = subprocess.run(
        [sys.executable, str(script), str(note)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    pid = int(done.stdout)
    deadline = time.monotonic() + 30
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    # Its own exit handlers ran: temporary folders of an engine are removed.
    assert note.exists()


def test_what_the_engine_imports_stays_there():
    code = (
        "import sys\n"
        "from tests.retrieval import moody\n"
        "from retrieval.isolate import Isolated\n"
        "from retrieval.corpus import Corpus; from retrieval.types import Passage\n"
        "corpus = Corpus.of([Passage('a', '', 'x')])\n"
        "engine = Isolated('tests.retrieval.moody', moody.Config('faiss'), corpus)\n"
        "print(engine.search(['modules'], 1)[0][0].passage.text, 'faiss' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "['faiss'] False\n"
