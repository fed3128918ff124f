"""77,000 Wikipedia passages and real questions; skipped where the shared data is not mounted."""

import json
import math
import random
from pathlib import Path

import pytest

from retrieval.corpus import read_corpus
from retrieval.retrievers import bm25s

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
CORPUS = DATA / "wiki" / "wiki_corpus.jsonl.gz"
QUESTIONS = DATA / "nq" / "nq_open_with_corpus.jsonl"

# Share of NQ questions with a gold passage among the top k, on 500 questions: SOURCES.md there.
PUBLISHED = {3: 0.646, 10: 0.790}
SAMPLE = 500


@pytest.mark.skipif(not CORPUS.exists(), reason=f"no shared data at {DATA}")
def test_bm25_finds_gold_passages_as_often_as_published():
    corpus = read_corpus(CORPUS)
    assert len(corpus.passages) == 76_907
    lines = QUESTIONS.read_text(encoding="utf-8").splitlines()
    questions = random.Random(0).sample([json.loads(line) for line in lines], SAMPLE)
    retriever = bm25s.build(bm25s.Config(analyzer="stop"), corpus)
    answers = retriever.search([question["question"] for question in questions], 10)
    for k, published in PUBLISHED.items():
        found = sum(
            any(hit.passage.id in question["meta"]["gold_ids"] for hit in hits[:k])
            for question, hits in zip(questions, answers, strict=True)
        )
        # Two samples of 500 questions each, three binomial standard errors of their difference.
        error = math.sqrt(published * (1 - published) * 2 / SAMPLE)
        assert abs(found / SAMPLE - published) < 3 * error, f"gold@{k}"
