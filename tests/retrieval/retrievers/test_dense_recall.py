"""Index types against exact search on 5,000 real medical passages; slow: one core encodes them."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from retrieval.corpus import Corpus, read_corpus
from retrieval.encoders import load_encoder, recipe_for
from retrieval.retrievers.dense import Config, build

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"
CORPUS = DATA / "medical" / "medical_corpus.jsonl.gz"
QUESTIONS = DATA / "bioasq" / "bioasq_factoid.jsonl"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not CORPUS.exists(), reason=f"no shared data at {DATA}"),
]


@pytest.fixture(scope="module")
def corpus():
    short = [passage for passage in read_corpus(CORPUS).passages if len(passage.text) <= 400]
    return Corpus.of(random.Random(0).sample(short, 5000))


@pytest.fixture(scope="module")
def queries():
    lines = QUESTIONS.read_text(encoding="utf-8").splitlines()[:300]
    encoder = load_encoder(recipe_for("embedded"), "cpu")
    return encoder.encode_queries([json.loads(line)["question"] for line in lines], 32)


@pytest.fixture(scope="module", autouse=True)
def encode_once(corpus):
    """Five indexes of the same passages: each slice is encoded for the first only."""
    known = {}
    encoder = load_encoder(recipe_for("embedded"), "cpu")
    encode = encoder.encode_passages

    def remembered(passages, batch_size):
        key = tuple(passage.id for passage in passages)
        if key not in known:
            known[key] = encode(passages, batch_size)
        return known[key]

    encoder.encode_passages = remembered
    yield
    del encoder.encode_passages


def found(corpus, queries, kind):
    """(ids of the 10 best of each query, bytes of the index)."""
    engine = build(Config(type=kind, device="cpu"), corpus)
    answers = engine.nearest(queries, 10)
    size = (Path(engine.scratch.name) / "index.faiss").stat().st_size
    return [{hit.passage.id for hit in hits} for hits in answers], size


@pytest.fixture(scope="module")
def exact(corpus, queries):
    return found(corpus, queries, "flat")


@pytest.mark.parametrize(
    ("kind", "least", "share"),
    [
        # recall@10 of flat and bytes of flat; measured: .994, .980, .976, .695
        ("hnsw", 0.98, 1.1),
        ("ivf", 0.97, 1.04),
        ("ivf_sq8", 0.97, 0.3),
        ("pq", 0.65, 0.09),
    ],
)
def test_each_type_finds_nearly_what_flat_finds(corpus, queries, exact, kind, least, share):
    answers, size = found(corpus, queries, kind)
    recall = np.mean([len(a & b) for a, b in zip(answers, exact[0], strict=True)]) / 10
    print(f"{kind}: recall@10 {recall:.3f}, bytes {size / exact[1]:.3f} of flat")
    assert recall >= least
    assert size <= share * exact[1]
