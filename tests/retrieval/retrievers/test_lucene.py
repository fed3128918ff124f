import gc
import math
import random
import resource
import threading
from collections import Counter

import pytest

from retrieval.corpus import Corpus
from retrieval.errors import InputError
from retrieval.index import build_index, open_index
from retrieval.java import java_class
from retrieval.retrievers import bm25s, lucene
from retrieval.store import PASSAGES, write_store
from retrieval.types import Passage

pytestmark = pytest.mark.java


def corpus_of(texts):
    return Corpus.of(Passage(key, "", text) for key, text in texts.items())


def build(texts, **settings):
    """Index {id: text}, words as they are unless the settings say otherwise."""
    return lucene.build(lucene.Config(**{"analyzer": "plain", **settings}), corpus_of(texts))


def answer(retriever, query, k=10):
    return {hit.passage.id: hit.score for hit in retriever.search([query], k)[0]}


def byte_length(length):
    """What Lucene keeps of a length: exact up to 40, then four significant bits above 24."""
    if length < 40:
        return length
    bits = (length - 24).bit_length()
    return 24 + ((length - 24) >> (bits - 4) << (bits - 4))


def oracle(texts, query, k1, b):
    """The formula of bm25s's docstring as a plain loop, over Lucene's lengths."""
    bags = {key: Counter(text.split()) for key, text in texts.items()}
    mean = sum(bag.total() for bag in bags.values()) / len(bags)
    scores = {}
    for key, bag in bags.items():
        for term in query.split():
            if bag[term]:
                df = sum(term in other for other in bags.values())
                idf = math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))
                norm = k1 * (1 - b + b * byte_length(bag.total()) / mean)
                scores[key] = scores.get(key, 0.0) + idf * bag[term] / (bag[term] + norm)
    return scores


def test_exact_scores():
    retriever = build({"a": "apple banana apple", "b": "banana cherry", "c": "cherry"}, k1=1, b=0.5)
    # As in test_bm25s.py: idf ln(8/3) and ln(8/5); a: 2 / (2 + 5/4) = 8/13, 1 / (1 + 5/4) = 4/9.
    apple, banana = math.log(8 / 3), math.log(8 / 5)
    assert answer(retriever, "apple") == pytest.approx({"a": 8 / 13 * apple}, rel=1e-6)
    assert answer(retriever, "apple banana banana") == pytest.approx(
        {"a": 8 / 13 * apple + 8 / 9 * banana, "b": banana}, rel=1e-6
    )


def test_lengths_are_those_that_lucene_keeps():
    small = java_class("org.apache.lucene.util.SmallFloat")
    for length in [*range(300), 1000, 1023, 1024, 12_345, 10**6]:
        assert small.byte4ToInt(small.intToByte4(length)) == byte_length(length)


@pytest.mark.parametrize("seed", range(8))
def test_a_plain_loop_agrees(seed):
    draw = random.Random(seed)
    words = [f"w{number}" for number in range(12)]
    texts = {
        f"{number}": " ".join(draw.choices(words, range(1, 13), k=draw.choice([3, 30, 90, 200])))
        for number in draw.sample(range(100), 30)
    }
    k1, b = draw.choice([0.0, 0.9, 2.0]), draw.choice([0.0, 0.4, 1.0])
    retriever = build(texts, k1=k1, b=b)
    for query in ("w0", "w1 w11", "w2 w2 w3", "w4 w5 w6 w0", "z w0"):
        expected = oracle(texts, query, k1, b)
        assert answer(retriever, query, 30) == pytest.approx(expected, rel=1e-5)


def test_short_passages_score_as_bm25s_scores_them():
    draw = random.Random(5)
    texts = {f"{n}": " ".join(draw.choices("bcdefgh", k=draw.randint(1, 40))) for n in range(50)}
    ours, other = build(texts), bm25s.build(bm25s.Config(analyzer="plain"), corpus_of(texts))
    for query in ("b", "b c", "d d e f", "g h b c"):
        assert answer(ours, query, 50) == pytest.approx(answer(other, query, 50), rel=1e-5)


class TestIds:
    # In the order of code points; UTF-16 would put the emoji before U+FFFF.
    NAMES = ("\0", "\0\0", "\0\1", "\1", " ", "a", "a\0", "a\0\0", "a\0\0001", "a\1", "a b", "a\n",
             "ab", "é", "東京", "\uffff", "\U0001f600")  # fmt: skip

    def test_any_string_is_an_id_and_breaks_ties(self):
        names = sorted(self.NAMES)
        shuffled = random.Random(0).sample(names, len(names))
        retriever = build(dict.fromkeys(shuffled, "same text") | {"zz": "other"})
        for k in range(1, len(names) + 1):
            hits = retriever.search(["same"], k)[0]
            assert [hit.passage.id for hit in hits] == names[:k]
            assert len({hit.score for hit in hits}) == 1

    def test_a_very_long_one_is_taken_and_a_longer_one_refused(self):
        assert list(answer(build({"é" * 16_383: "word"}), "word")) == ["é" * 16_383]
        with pytest.raises(InputError, match=r"'éé.*longer than 32,766 bytes") as caught:
            build({"é" * 16_384: "word"})
        assert len(str(caught.value)) < 200


@pytest.fixture(scope="module")
def retriever():
    return build({f"p{n}": f"word{n} the shared" for n in range(100)}, analyzer="english")


class TestQueries:
    @pytest.mark.parametrize(
        "query",
        [
            'word7" AND (NOT [x TO y] {z} ^2 ~3 * ? \\ / : + - && ||',
            "contents: word7 id: p3 -word700",
            "\0word7\0",
            "\ud800word7\udfff \udcff",
            "word7 " + "the " * 25_000,
            "x" * 100_000 + " word7",
            "\u202eword7\u2028",
        ],
    )
    def test_whatever_is_in_it_its_words_are_looked_up(self, retriever, query):
        assert list(answer(retriever, query)) == ["p7"]

    @pytest.mark.parametrize("query", ["the of and", "", "\0", "\ud800", "?!", "nothing"])
    def test_without_a_known_word_there_is_no_hit(self, retriever, query):
        assert retriever.search([query], 5) == [[]]

    def test_more_words_than_lucenes_usual_limit_all_count(self, retriever):
        """1024 clauses are its default; a score is the sum of its words' scores."""
        words = [f"word{n}" for n in range(20_000)]
        found = answer(retriever, " ".join(["shared", *words]), 200)
        both = answer(retriever, "shared")["p0"] + answer(retriever, "word0")["p0"]
        assert len(found) == 100 and found["p99"] == pytest.approx(both, rel=1e-5)

    def test_threads_share_it(self, retriever):
        queries = [f"word{n} shared" for n in range(100)]
        expected, found = retriever.search(queries, 5), []

        def search():
            found.extend(retriever.search(queries, 5) for _ in range(5))

        threads = [threading.Thread(target=search) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [expected] * 20


def test_rm3_finds_by_the_words_of_the_best_passages():
    texts = {
        "a": "heron river reeds",
        "b": "river reeds otter",
        "c": "desert camel",
    } | {f"other{n}": f"filler{n} words{n}" for n in range(30)}
    # Of the words of passage a, those in less than a tenth of the passages: river, reeds.
    assert list(answer(build(texts), "heron")) == ["a"]
    assert list(answer(build(texts, rm3=True), "heron")) == ["a", "b"]
    # The whole weight on the original query: as without.
    assert list(answer(build(texts, rm3=True, rm3_weight=1.0), "heron", 1)) == ["a"]
    assert answer(build(texts, rm3=True), "zzyzx") == {}


@pytest.mark.parametrize(
    ("setting", "value"),
    [("k1", -1), ("b", 2), ("analyzer", "german"), ("rm3_terms", 0), ("rm3_passages", -3),
     ("rm3_weight", 1.1), ("rm3_weight", math.nan)],
)  # fmt: skip
def test_wrong_settings_are_refused(setting, value):
    with pytest.raises(InputError, match=f"{setting} is "):
        lucene.Config(**{setting: value})


def test_a_corpus_without_a_term_is_refused():
    for texts in ({"a": "?", "b": "!"}, {"a": "\x01"}):
        with pytest.raises(InputError, match="no passage has a term"):
            build(texts)


def test_passages_without_a_term_are_no_obstacle():
    retriever = build({"a": "?", "b": "\x01", "c": "x", "d": "", "e": "x y"}, analyzer="stop")
    assert list(answer(retriever, "x")) == ["c", "e"]
    # They count as passages of no length for bm25s; Lucene leaves them out of its averages.


def test_the_title_is_searched():
    corpus = Corpus.of([Passage("a", "Vitamins", "x"), Passage("b", "the", "y")])
    assert list(answer(lucene.build(lucene.Config(), corpus), "the vitamin")) == ["a"]


def test_the_temporary_folder_goes_with_the_retriever():
    retriever = build({"a": "x"})
    folder = retriever._scratch.folder
    assert folder.exists()
    del retriever
    gc.collect()
    assert not folder.exists()


class TestFolders:
    @pytest.fixture
    def corpus(self, tmp_path):
        passages = [Passage(f"p{n}", f"T{n}", f"word{n} shared text") for n in range(200)]
        write_store(passages, tmp_path)
        return tmp_path / PASSAGES

    @pytest.fixture
    def out(self, corpus, tmp_path):
        build_index(corpus, tmp_path / "x", "lucene", lucene.Config())
        return tmp_path / "x"

    def test_what_a_killed_build_left_is_dropped(self, corpus, tmp_path):
        (tmp_path / "engine" / "sub").mkdir(parents=True)
        (tmp_path / "engine" / "segments_9").write_text("junk")
        passages = Corpus.of([Passage("a", "", "word")])
        lucene.write(lucene.Config(), passages, tmp_path / "engine")
        retriever = lucene.read(lucene.Config(), passages, tmp_path / "engine")
        assert list(answer(retriever, "word")) == ["a"]
        assert not (tmp_path / "engine" / "sub").exists()

    def test_another_number_of_passages_is_refused(self, out, corpus):
        with pytest.raises(InputError, match="has 200 documents for 1 passages"):
            lucene.read(lucene.Config(), corpus_of({"a": "x"}), out / "engine")

    def test_cut_files_are_refused(self, out):
        files = [file for file in (out / "engine").iterdir() if file.stat().st_size]
        assert len(files) > 8
        for file in files:
            whole = file.read_bytes()
            for size in (0, len(whole) // 2, len(whole) - 1):
                file.write_bytes(whole[:size])
                with pytest.raises(InputError, match="cannot be opened as a Lucene index") as error:
                    open_index(out)
                assert "\n" not in str(error.value)
            file.write_bytes(whole)
        assert list(answer(open_index(out).retriever, "word7", 1)) == ["p7"]

    def test_a_full_disk_is_one_line(self, corpus, tmp_path):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            # The passages are of 13,000 bytes, the largest file of Lucene's of 4,000 or so.
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
            with pytest.raises(InputError, match=r"the build stopped \(.*File too large") as error:
                build_index(corpus, tmp_path / "x", "lucene", lucene.Config())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert "\n" not in str(error.value) and not (tmp_path / "x").exists()
        build_index(corpus, tmp_path / "x", "lucene", lucene.Config())
        assert list(answer(open_index(tmp_path / "x").retriever, "word7", 1)) == ["p7"]
