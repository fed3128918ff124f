import pickle
import random
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.corpus import Corpus, read_corpus
from retrieval.errors import InputError
from retrieval.store import OFFSETS, PASSAGES, PassageStore, unique_passages, write_store
from retrieval.types import Passage

ROOT = Path(__file__).resolve().parents[2]
THREE = [
    Passage("a", "First", "one"),
    Passage("b\u2028 \0", "", 'Žižkov "quoted"\n\\ 東京 \U0001f600'),
    Passage("c", "Last", "three"),
]


def store_of(passages, folder):
    write_store(passages, folder)
    return PassageStore(folder)


def corpus_file(folder, ids):
    file = folder / "corpus.jsonl"
    file.write_text("".join(f'{{"id": "{name}", "title": "", "text": "x"}}\n' for name in ids))
    return file


def test_what_is_written_is_read_back(tmp_path):
    store = store_of(THREE, tmp_path)
    assert list(store) == THREE and len(store) == 3
    assert store[1] == store[-2] == THREE[1]
    assert store[::-2] == [THREE[2], THREE[0]]
    assert store == THREE and store != THREE[:2]
    for beyond in (3, -4):
        with pytest.raises(IndexError):
            store[beyond]


def test_number_and_fingerprint_are_those_of_the_corpus_in_memory(tmp_path):
    assert write_store(THREE, tmp_path) == (3, Corpus.of(THREE).fingerprint)
    # The file is a corpus file itself.
    assert read_corpus(tmp_path / PASSAGES) == Corpus.of(THREE)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=50, derandomize=True)
@given(st.lists(st.builds(Passage, text, text, text), min_size=1, max_size=8))
def test_any_valid_passages_come_back(tmp_path_factory, passages):
    assert list(store_of(passages, tmp_path_factory.mktemp("store"))) == passages


def test_memory_does_not_grow_with_the_corpus(tmp_path):
    """50 MB of passages, written and read by a process that may grow by 20 MB."""
    script = """
import sys
from pathlib import Path
from retrieval.store import PassageStore, write_store
from retrieval.types import Passage

def own():  # kB; pages of the mapped file are not counted, they are the kernel's to drop
    return int(Path("/proc/self/smaps_rollup").read_text().split("Anonymous:")[1].split()[0])

def watched(passages):
    for passage in passages:
        grown.append(own() - before)
        yield passage

folder, before, grown = Path(sys.argv[1]), own(), []
write_store(watched(Passage(str(i), "", "x" * 500_000) for i in range(100)), folder)
assert sum(len(passage.text) for passage in watched(PassageStore(folder))) == 50_000_000
assert len(grown) == 200 and max(grown) < 20_000, max(grown)
"""
    subprocess.run([sys.executable, "-c", script, tmp_path], cwd=ROOT, check=True)


def test_a_store_in_the_folder_is_overwritten(tmp_path):
    store_of(THREE, tmp_path)
    assert list(store_of(THREE[:1], tmp_path)) == THREE[:1]


def test_no_passages_are_refused(tmp_path):
    with pytest.raises(InputError, match="empty"):
        write_store([], tmp_path)


def test_text_that_is_no_unicode_is_refused(tmp_path):
    with pytest.raises(InputError, match="'a' is not valid Unicode"):
        write_store([Passage("a", "", "\ud800")], tmp_path)


@pytest.mark.parametrize("name", [PASSAGES, OFFSETS])
@pytest.mark.parametrize("left", [0, 1, -1, -8, None])
def test_a_cut_or_missing_file_is_refused(tmp_path, name, left):
    write_store(THREE, tmp_path)
    file = tmp_path / name
    if left is None:
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(InputError, match="build it again") as caught:
        PassageStore(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_longer_file_is_refused(tmp_path):
    write_store(THREE, tmp_path)
    with (tmp_path / PASSAGES).open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(InputError, match="do not fit"):
        PassageStore(tmp_path)


def test_a_damaged_passage_is_named_when_it_is_read(tmp_path):
    write_store(THREE, tmp_path)
    whole = (tmp_path / PASSAGES).read_bytes()
    (tmp_path / PASSAGES).write_bytes(whole.replace(b'"First"', b'"First,'))
    store = PassageStore(tmp_path)
    assert store[2] == THREE[2]
    with pytest.raises(InputError, match=f"passage 1 of {PASSAGES} is damaged"):
        store[0]


def test_a_copy_in_another_folder_of_work_reads_the_same(tmp_path, monkeypatch):
    (tmp_path / "x").mkdir()
    monkeypatch.chdir(tmp_path)
    store = store_of(THREE, Path("x"))
    monkeypatch.chdir("/")
    assert list(pickle.loads(pickle.dumps(store))) == THREE


def test_threads_share_it(tmp_path):
    passages = [Passage(str(number), "", "x" * number) for number in range(200)]
    store = store_of(passages, tmp_path)
    wrong = []

    def read(seed):
        for place in random.Random(seed).choices(range(200), k=500):
            if store[place] != passages[place]:
                wrong.append(place)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_unique_ids_pass(tmp_path):
    names = [str(number) for number in range(1000)]
    assert [p.id for p in unique_passages(corpus_file(tmp_path, names))] == names


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ("abcb", "line 4: id 'b' stands at line 2 already"),
        ("aa", "line 2: id 'a' stands at line 1 already"),
        ("abcabc", "line 4: id 'a' stands at line 1 already"),
    ],
)
def test_an_id_that_occurs_twice_is_named_with_both_lines(tmp_path, ids, message):
    with pytest.raises(InputError, match=message):
        list(unique_passages(corpus_file(tmp_path, ids)))


def test_ids_that_only_share_a_hash_are_two(tmp_path, monkeypatch):
    monkeypatch.setattr("retrieval.store._hash", lambda text: len(text))
    assert len(list(unique_passages(corpus_file(tmp_path, ["a", "b", "cc"])))) == 3
    with pytest.raises(InputError, match="line 3: id 'a' stands at line 1"):
        list(unique_passages(corpus_file(tmp_path, ["a", "b", "a"])))


def test_a_full_disk_is_an_os_error(tmp_path):
    """A limit on the size of files stands for the full disk; the writer hides nothing."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
        with pytest.raises(OSError, match="File too large"):
            write_store([Passage("a", "", "x" * 100_000)], tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
