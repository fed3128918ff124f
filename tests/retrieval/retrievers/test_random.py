import subprocess
import sys
from collections import Counter
from pathlib import Path

from retrieval.corpus import Corpus
from retrieval.retrievers import random
from retrieval.types import Passage

CORPUS = Corpus.of([Passage(f"p{number:02d}", "", "x") for number in range(20)])
ENGINE = random.build(random.Config(), CORPUS)


def ids(engine, query, k):
    return [hit.passage.id for hit in engine.search([query], k)[0]]


def test_a_query_has_one_answer_in_every_process():
    code = (
        "from tests.retrieval.retrievers.test_random import ENGINE, ids\n"
        "print(ids(ENGINE, 'who?', 5))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(ids(ENGINE, "who?", 5))


def test_fewer_passages_are_the_first_of_more():
    every = ids(ENGINE, "who?", 99)
    assert sorted(every) == [passage.id for passage in CORPUS.passages]
    assert all(ids(ENGINE, "who?", k) == every[:k] for k in (1, 3, 19))


def test_other_queries_and_other_seeds_have_other_answers():
    other = random.build(random.Config(seed=1), CORPUS)
    assert len({tuple(ids(ENGINE, f"q{number}", 5)) for number in range(50)}) == 50
    assert ids(ENGINE, "who?", 20) != ids(other, "who?", 20)


def test_every_passage_is_equally_likely():
    firsts = Counter(ids(ENGINE, f"question {number}", 1)[0] for number in range(4000))
    # 200 expected each; the standard deviation is sqrt(4000 * 1/20 * 19/20) = 13.8.
    assert len(firsts) == 20 and all(140 < count < 260 for count in firsts.values())


def test_a_query_without_a_word_finds_nothing_and_a_surrogate_is_no_error():
    assert ENGINE.search(["", "?!", "\ud800"], 3) == [[], [], []]
    assert len(ENGINE.search(["a\ud800"], 3)[0]) == 3
