import math
import random
from collections import Counter

import pytest

from retrieval.corpus import Corpus
from retrieval.errors import InputError
from retrieval.retrievers import bm25s, rank_bm25
from retrieval.types import Passage


def corpus_of(texts):
    return Corpus.of(Passage(key, "", text) for key, text in texts.items())


def build(texts, **settings):
    """Index {id: text}, words as they are unless the settings say otherwise."""
    config = rank_bm25.Config(**{"analyzer": "plain", **settings})
    return rank_bm25.build(config, corpus_of(texts))


def answer(retriever, query, k=10):
    return {hit.passage.id: hit.score for hit in retriever.search([query], k)[0]}


def oracle(texts, query, config):
    """The formula of the module's docstring as a plain loop."""
    bags = {key: Counter(text.split()) for key, text in texts.items()}
    mean = sum(bag.total() for bag in bags.values()) / len(bags)
    df = Counter(term for bag in bags.values() for term in bag)
    raw = {term: math.log((len(bags) - n + 0.5) / (n + 0.5)) for term, n in df.items()}
    floor = config.epsilon * sum(raw.values()) / len(raw)
    idf = {term: floor if value < 0 else value for term, value in raw.items()}
    scores = {}
    for key, bag in bags.items():
        for term in query.split():
            if bag[term]:
                norm = config.k1 * (1 - config.b + config.b * bag.total() / mean)
                part = idf[term] * bag[term] * (config.k1 + 1) / (bag[term] + norm)
                scores[key] = scores.get(key, 0.0) + part
    return sorted(scores.items(), key=lambda item: (-round(item[1], 9), item[0]))


def random_texts(draw):
    return {
        f"{number}": " ".join(draw.choices("abcdefghijkl", range(1, 13), k=draw.randint(1, 12)))
        for number in draw.sample(range(100), 30)
    }


def test_exact_scores():
    texts = {"a": "apple banana apple", "b": "banana cherry", "c": "cherry", "d": "date date"}
    retriever = build(texts, k1=1, b=0.5)
    # N = 4, avgdl = 2. The length norm of a is 1 * (0.5 + 0.5 * 3/2) = 5/4, of d 1.
    # apple, date: df = 1, idf = ln(3.5/1.5) = ln(7/3); banana, cherry: df = 2, idf = ln 1 = 0.
    # a: apple twice, 2 * 2 / (2 + 5/4) = 16/13. d: date twice, 2 * 2 / (2 + 1) = 4/3.
    idf = math.log(7 / 3)
    assert answer(retriever, "apple") == pytest.approx({"a": 16 / 13 * idf}, abs=1e-9)
    assert answer(retriever, "date apple") == pytest.approx(
        {"d": 4 / 3 * idf, "a": 16 / 13 * idf}, abs=1e-9
    )
    assert list(answer(retriever, "date apple")) == ["d", "a"]


def test_a_match_that_scores_zero_is_a_hit():
    assert answer(build({"b": "x", "c": "y", "a": "y", "d": "x"}), "x") == {"b": 0.0, "d": 0.0}


def test_a_match_below_zero_is_a_hit():
    texts = {"a": "apple banana apple", "b": "banana cherry", "c": "cherry"}
    # N = 3. Raw idf: apple ln(5/3), banana and cherry ln(3/5) = -ln(5/3); their mean is
    # -ln(5/3)/3, so banana gets a quarter of that, -ln(5/3)/12. tf part: a 2 * 4/9, b 2 * 1/2.
    idf = -math.log(5 / 3) / 12
    assert answer(build(texts, k1=1, b=0.5), "banana") == pytest.approx(
        {"a": 8 / 9 * idf, "b": idf}, abs=1e-9
    )


@pytest.mark.parametrize("seed", range(15))
def test_a_plain_loop_agrees(seed):
    draw = random.Random(seed)
    texts = random_texts(draw)
    settings = {"k1": draw.choice([0.01, 0.9, 2.0]), "b": draw.choice([0.0, 0.4, 1.0])}
    retriever = build(texts, **settings)
    for query in ("a", "b l", "c c d", "e f g a", "z a"):
        expected = oracle(texts, query, rank_bm25.Config(**settings))
        assert list(answer(retriever, query, 30)) == [key for key, _ in expected]
        assert answer(retriever, query, 30) == pytest.approx(dict(expected), abs=1e-8)


@pytest.mark.parametrize("seed", range(10))
def test_bm25s_ranks_alike_where_the_formulas_agree(seed):
    # For one term the two differ by a factor: k1 + 1 and the ratio of the idfs, if both are > 0.
    texts = random_texts(random.Random(seed))
    ours = build(texts)
    other = bm25s.build(bm25s.Config(analyzer="plain"), corpus_of(texts))
    rare = [t for t in "abcdefghijkl" if 0 < sum(t in x for x in texts.values()) < len(texts) / 2]
    assert rare
    for term in rare:
        df = sum(term in text for text in texts.values())
        odds = (len(texts) - df + 0.5) / (df + 0.5)
        factor = 1.9 * math.log(odds) / math.log(1 + odds)
        theirs = {key: factor * score for key, score in answer(other, term, 30).items()}
        assert list(answer(ours, term, 30)) == list(theirs)
        assert answer(ours, term, 30) == pytest.approx(theirs, abs=1e-7)


def test_scores_equal_on_paper_tie_by_id():
    # As in test_bm25s.py: the same three addends in different orders.
    texts = {"c": "x y y z z z", "b": "x x x y z z", "a": "x x y y y z", "d": "x x x y y z"}
    texts |= {f"other{number}": "filler words" for number in range(9)}
    for k in range(1, 5):
        hits = build(texts).search(["x y z"], k)[0]
        assert [hit.passage.id for hit in hits] == list("abcd")[:k]
        assert len({hit.score for hit in hits}) == 1


def test_word_order_does_not_matter():
    retriever = build(random_texts(random.Random(1)))
    assert retriever.search(["a b c d"], 9) == retriever.search(["d c b a"], 9)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("epsilon", -0.1), ("epsilon", math.nan), ("epsilon", math.inf), ("k1", -1), ("k1", 0)],
)
def test_wrong_settings_are_refused(setting, value):
    with pytest.raises(InputError, match=f"{setting} is {value}"):
        rank_bm25.Config(**{setting: value})
