"""bm25s and Lucene rank alike; where they do not, the cause is known and nothing else is left.

The causes: Lucene keeps a passage's length in one byte (exact up to 40), splits words by UAX #29,
and stems by Porter. A second implementation of BM25 in this file takes the terms and the lengths
of either side: with all three as Lucene has them it must give Lucene's answer, hit by hit.
"""

import json
import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from envs.datasets import atlas
from retrieval.analyzer import ANALYZERS
from retrieval.anserini import analyze
from retrieval.corpus import Corpus, read_corpus
from retrieval.ranking import Ranker
from retrieval.retrievers import bm25s, lucene
from retrieval.types import Passage

pytestmark = pytest.mark.java

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"
CORPUS = DATA / "wiki" / "wiki_corpus.jsonl.gz"
QUESTIONS = DATA / "nq" / "nq_open_with_corpus.jsonl"
K = 10


def byte_length(length):
    """See test_lucene.py, where it is compared with Lucene's own."""
    if length < 40:
        return length
    bits = (length - 24).bit_length()
    return 24 + ((length - 24) >> (bits - 4) << (bits - 4))


class Plain:
    """BM25 with Anserini's k1 and b over given terms, ranked as everywhere here."""

    def __init__(self, corpus, documents, byte_lengths):
        self.ranker, self.count = Ranker(corpus), len(documents)
        lengths = [len(terms) for terms in documents]
        kept = np.array([byte_length(n) for n in lengths] if byte_lengths else lengths)
        self.norms = 0.9 * (1 - 0.4 + 0.4 * kept / np.mean(lengths))
        self.postings = {}
        for place, terms in enumerate(documents):
            for term, tf in Counter(terms).items():
                self.postings.setdefault(term, []).append((place, tf))

    def scores(self, terms):
        """Of all passages, shape (passages,)."""
        scores = np.zeros(self.count)
        for term, times in Counter(terms).items():
            if found := self.postings.get(term):
                places, tf = np.array(found).T
                idf = math.log(1 + (self.count - len(tf) + 0.5) / (len(tf) + 0.5))
                scores[places] += times * idf * tf / (tf + self.norms[places])
        return scores

    def search(self, queries):
        answers = []
        for terms in queries:
            scores = self.scores(terms)
            places = np.flatnonzero(scores)
            answers.append(self.ranker.hits(places, scores[places], K))
        return answers


def ids(answers):
    return [[hit.passage.id for hit in hits] for hits in answers]


def same_sets(first, second):
    """The share of questions with the same K passages, in whatever order."""
    return np.mean([set(a) == set(b) for a, b in zip(ids(first), ids(second), strict=True)])


def assert_hit_by_hit(first, second):
    assert ids(first) == ids(second)
    for one, other in zip(first, second, strict=True):
        expected = [hit.score for hit in other]
        assert [hit.score for hit in one] == pytest.approx(expected, rel=2e-6)


def spelled(corpus, queries):
    """Corpus and queries with each of our terms spelled as one word that no analyzer changes.

    So both engines see the same terms, through their public interfaces, with analyzer "plain".
    """
    terms, numbers = ANALYZERS["english"].terms, {}

    def spell(text):
        return " ".join(f"t{numbers.setdefault(term, len(numbers))}" for term in terms(text))

    made = (Passage(p.id, "", spell(f"{p.title}\n{p.text}")) for p in corpus.passages)
    return Corpus.of(made), [spell(query) for query in queries]


def search_both(corpus, queries, analyzer):
    return [
        engine.build(engine.Config(analyzer=analyzer), corpus).search(queries, K)
        for engine in (bm25s, lucene)
    ]


def test_over_the_same_terms_of_short_passages_they_agree_hit_by_hit():
    """No passage of this world is longer than 40 terms, so Lucene rounds no length."""
    world = atlas.build(atlas.Config(people=100))
    corpus, queries = spelled(Corpus.of(world.passages), [q.text for q in world.questions])
    assert len(corpus.passages) > 400 and len(queries) > 100
    assert max(len(passage.text.split()) for passage in corpus.passages) <= 40
    assert_hit_by_hit(*search_both(corpus, queries, "plain"))


def test_over_long_passages_the_length_byte_is_the_whole_difference():
    draw = random.Random(2)
    words = [f"t{number}" for number in range(200)]
    corpus = Corpus.of(
        Passage(f"p{n}", "", " ".join(draw.choices(words, k=draw.randint(41, 400))))
        for n in range(300)
    )
    queries = [" ".join(draw.choices(words, k=4)) for _ in range(60)]
    ours, theirs = search_both(corpus, queries, "plain")
    assert same_sets(ours, theirs) < 1
    documents, terms = [p.text.split() for p in corpus.passages], [q.split() for q in queries]
    assert_hit_by_hit(ours, Plain(corpus, documents, byte_lengths=False).search(terms))
    assert_hit_by_hit(theirs, Plain(corpus, documents, byte_lengths=True).search(terms))


@pytest.fixture(scope="module")
def real():
    """77,000 passages of Wikipedia, 200 questions of NQ."""
    if not CORPUS.exists():
        pytest.skip(f"no shared data at {DATA}")
    lines = QUESTIONS.read_text(encoding="utf-8").splitlines()
    sample = random.Random(0).sample(lines, 200)
    return read_corpus(CORPUS), [json.loads(line)["question"] for line in sample]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_on_real_questions_over_the_same_terms(real):
    corpus, queries = spelled(*real)
    ours, theirs = search_both(corpus, queries, "plain")
    documents, terms = [p.text.split() for p in corpus.passages], [q.split() for q in queries]
    exact = Plain(corpus, documents, byte_lengths=False)
    assert_hit_by_hit(ours, exact.search(terms))
    # All that is left is the length byte: 200 of 200.
    assert_hit_by_hit(theirs, Plain(corpus, documents, byte_lengths=True).search(terms))
    places = {passage.id: place for place, passage in enumerate(corpus.passages)}

    def agree(question, tolerance):
        """The same passages, but for some whose exact scores nearly tie with the K-th best."""
        mine, other = (set(found[question]) for found in (ids(ours), ids(theirs)))
        scores = exact.scores(terms[question])
        cut = min(scores[places[name]] for name in mine)
        return all(abs(scores[places[name]] - cut) <= tolerance * cut for name in mine ^ other)

    shares = {t: float(np.mean([agree(n, t) for n in range(200)])) for t in (0, 0.005, 0.01, 0.02)}
    print(f"\nthe same 10, but for passages within t of the 10th score: {shares}")
    assert shares[0] == same_sets(ours, theirs) > 0.85
    assert shares[0.01] >= 0.95


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", list(ANALYZERS))
def test_on_real_questions_with_each_its_own_analyzer(real, name):
    """Lucene's answer is BM25 over Lucene's terms and lengths; each cause is counted alone."""
    corpus, queries = real
    texts = [f"{passage.title}\n{passage.text}" for passage in corpus.passages]
    ours, theirs = search_both(corpus, queries, name)
    terms = [analyze(name, query) for query in queries]
    documents = [analyze(name, text) for text in texts]
    assert_hit_by_hit(theirs, Plain(corpus, documents, byte_lengths=True).search(terms))
    exact = Plain(corpus, documents, byte_lengths=False).search(terms)
    overlap = np.mean(
        [len(set(a) & set(b)) / K for a, b in zip(ids(ours), ids(theirs), strict=True)]
    )
    alike = np.mean([ANALYZERS[name].terms(t) == d for t, d in zip(texts, documents, strict=True)])
    print(
        f"\n{name}: the same 10 of 10: {same_sets(ours, theirs)}; of each 10 in common: {overlap}; "
        f"differing by the length byte alone: {1 - same_sets(exact, theirs):.3f}, "
        f"by the terms alone: {1 - same_sets(ours, exact):.3f}; "
        f"passages with the same terms: {alike:.3f}"
    )
    assert overlap > 0.93 and same_sets(ours, theirs) > 0.6
    assert same_sets(exact, theirs) > 0.8
