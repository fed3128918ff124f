import math
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from retrieval.corpus import Corpus
from retrieval.errors import InputError
from retrieval.retrievers import bm25s
from retrieval.types import Passage

ROOT = Path(__file__).resolve().parents[3]


def build(texts, **settings):
    """Index {id: text}, words as they are unless the settings say otherwise."""
    config = bm25s.Config(**{"analyzer": "plain", **settings})
    return bm25s.build(config, Corpus.of(Passage(key, "", text) for key, text in texts.items()))


def answer(retriever, query, k=10):
    return {hit.passage.id: hit.score for hit in retriever.search([query], k)[0]}


def oracle(texts, query, k1, b):
    """The formula of the module's docstring as a plain loop."""
    bags = {key: Counter(text.split()) for key, text in texts.items()}
    mean = sum(bag.total() for bag in bags.values()) / len(bags)
    scores = {}
    for key, bag in bags.items():
        for term in query.split():
            if bag[term]:
                df = sum(term in other for other in bags.values())
                idf = math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))
                norm = k1 * (1 - b + b * bag.total() / mean)
                scores[key] = scores.get(key, 0.0) + idf * bag[term] / (bag[term] + norm)
    return sorted(scores.items(), key=lambda item: (-round(item[1], 9), item[0]))


def test_exact_scores():
    retriever = build({"a": "apple banana apple", "b": "banana cherry", "c": "cherry"}, k1=1, b=0.5)
    # N = 3, avgdl = 2. The length norm of a is 1 * (0.5 + 0.5 * 3/2) = 5/4, of b 1, of c 3/4.
    # apple:  df = 1, idf = ln(1 + 2.5/1.5) = ln(8/3); a: tf = 2, 2 / (2 + 5/4) = 8/13.
    # banana: df = 2, idf = ln(1 + 1.5/2.5) = ln(8/5); a: 1 / (1 + 5/4) = 4/9, b: 1 / (1 + 1) = 1/2.
    apple, banana = math.log(8 / 3), math.log(8 / 5)
    assert answer(retriever, "apple") == pytest.approx({"a": 8 / 13 * apple}, abs=1e-9)
    assert answer(retriever, "banana") == pytest.approx(
        {"b": banana / 2, "a": 4 / 9 * banana}, abs=1e-9
    )
    assert list(answer(retriever, "banana")) == ["b", "a"]
    assert answer(retriever, "apple banana banana") == pytest.approx(
        {"a": 8 / 13 * apple + 8 / 9 * banana, "b": banana}, abs=1e-9
    )


@pytest.mark.parametrize("seed", range(15))
def test_a_plain_loop_agrees(seed):
    draw = random.Random(seed)
    texts = {
        f"{number}": " ".join(draw.choices("abcdefgh", k=draw.randint(1, 12)))
        for number in draw.sample(range(100), 30)
    }
    k1, b = draw.choice([0.0, 0.9, 2.0]), draw.choice([0.0, 0.4, 1.0])
    retriever = build(texts, k1=k1, b=b)
    for query in ("a", "b h", "c c d", "e f g a", "z a"):
        expected = oracle(texts, query, k1, b)
        assert list(answer(retriever, query, 30)) == [key for key, _ in expected]
        assert answer(retriever, query, 30) == pytest.approx(dict(expected), abs=1e-8)


def test_scores_equal_on_paper_tie_by_id():
    # x, y, z have the same idf, and every passage has their counts 1, 2, 3 in another order: the
    # same three addends, which floating point sums to different last bits.
    texts = {
        "c": "x y y z z z",
        "b": "x x x y z z",
        "a": "x x y y y z",
        "e": "x y y y z z",
        "d": "x x x y y z",
    } | {f"other{number}": "filler words" for number in range(9)}
    retriever = build(texts, k1=0.9, b=0.4)
    for k in range(1, 6):
        hits = retriever.search(["x y z"], k)[0]
        assert [hit.passage.id for hit in hits] == list("abcde")[:k]
        assert len({hit.score for hit in hits}) == 1


def test_corpus_and_word_order_do_not_matter():
    draw = random.Random(3)
    keys = [f"{number}" for number in range(40)]
    texts = {key: " ".join(draw.choices("abcdef", k=9)) for key in keys}
    draw.shuffle(keys)
    shuffled = build({key: texts[key] for key in keys})
    assert shuffled.search(["a b c d e f"], 9) == build(texts).search(["f d e c b a"], 9)


def test_a_term_that_every_passage_holds_still_finds_them():
    assert list(answer(build({"b": "x", "a": "x"}), "x")) == ["a", "b"]


def test_passages_without_a_term_are_no_obstacle():
    retriever = build({"a": "?", "b": "x"}, analyzer="stop")
    assert list(answer(retriever, "x")) == ["b"]


def test_the_title_is_searched_and_words_are_stemmed_and_stopped_by_default():
    corpus = Corpus.of([Passage("a", "Vitamins", "x"), Passage("b", "the", "y")])
    retriever = bm25s.build(bm25s.Config(), corpus)
    assert list(answer(retriever, "the vitamin")) == ["a"]
    assert answer(retriever, "the") == {}


class TestFolders:
    @pytest.fixture
    def corpus(self):
        draw = random.Random(4)
        names = draw.sample(range(1000), 200)
        return Corpus.of(
            Passage(f"{name}", "", " ".join(draw.choices("bcdefghij", k=9))) for name in names
        )

    @pytest.fixture
    def folder(self, corpus, tmp_path):
        bm25s.write(bm25s.Config(), corpus, tmp_path)
        return tmp_path

    def test_opened_it_answers_bit_by_bit_as_built(self, corpus, folder):
        queries = ["b c", "d e f f", "g", "zz", ""]
        opened = bm25s.read(bm25s.Config(), corpus, folder)
        assert opened.search(queries, 50) == bm25s.build(bm25s.Config(), corpus).search(queries, 50)

    def test_the_arrays_stay_on_disk(self, corpus, folder):
        opened = bm25s.read(bm25s.Config(), corpus, folder)
        arrays = [*(opened._index.scores[n] for n in ("data", "indices", "indptr"))]
        assert all(isinstance(array, np.memmap) for array in arrays)
        assert isinstance(opened._ranker._id_ranks, np.memmap)
        assert arrays[0].dtype == np.float64

    @pytest.mark.parametrize("change", ["fewer", "more"])
    def test_another_corpus_is_refused(self, corpus, folder, change):
        passages = list(corpus.passages)
        passages = passages[1:] if change == "fewer" else [*passages, Passage("x", "", "x")]
        with pytest.raises(InputError, match="damaged or of another corpus"):
            bm25s.read(bm25s.Config(), Corpus.of(passages), folder)

    def test_files_of_another_build_are_refused(self, corpus, folder):
        """As a kill between two of them would leave them."""
        np.save(folder / "data.csc.index.npy", np.zeros(3))
        with pytest.raises(InputError, match="damaged or of another corpus"):
            bm25s.read(bm25s.Config(), corpus, folder)

    def test_they_are_written_over(self, corpus, folder):
        fewer = Corpus.of(corpus.passages[:50])
        bm25s.write(bm25s.Config(), fewer, folder)
        opened = bm25s.read(bm25s.Config(), fewer, folder)
        assert opened.search(["b"], 9) == bm25s.build(bm25s.Config(), fewer).search(["b"], 9)


def test_wrong_settings_are_refused():
    with pytest.raises(InputError, match="b is 2"):
        bm25s.Config(b=2)


@pytest.mark.parametrize("folder", [Path("/"), ROOT / "retrieval" / "retrievers"])
def test_the_library_is_found_beside_its_namesake_from_any_folder(tmp_path, folder):
    script = tmp_path / "run.py"
    script.write_text(
        "from retrieval.retrievers import bm25s as ours\n"
        "import bm25s as library\n"
        "print(library.BM25.__module__, ours.BM25s.__module__)\n"
    )
    run = subprocess.run(
        [sys.executable, script],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "bm25s retrieval.retrievers.bm25s\n"
