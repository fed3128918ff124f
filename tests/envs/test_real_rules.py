"""The rules on real medical questions; skipped where the shared data is not mounted."""

from pathlib import Path

import pytest

from envs.datasets import jsonl, medqa
from envs.registration import make_env
from envs.rules import named_option
from retrieval.corpus import read_corpus
from retrieval.retrievers import bm25s

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
PUBMEDQA = DATA / "pubmedqa" / "pubmedqa_test.jsonl"
MEDQA = DATA / "medqa" / "medqa_us_test_4opt.jsonl"

pytestmark = pytest.mark.skipif(not PUBMEDQA.exists(), reason=f"no shared data at {DATA}")


def test_no_question_of_medqa_names_an_option_and_nearly_every_option_names_itself() -> None:
    questions = medqa.build(medqa.Config(str(MEDQA))).questions
    assert len(questions) > 900
    assert not [q.id for q in questions if named_option(q.text, q)]
    options = [(question, text) for question in questions for text in question.options.values()]
    free = [text for question, text in options if named_option(text, question) is None]
    # Those that the question names too, and those of fewer than three letters and digits.
    assert len(options) == 4 * len(questions) and len(free) / len(options) < 0.02


@pytest.mark.slow
def test_pubmedqa_abstracts_are_found_first_and_never_with_their_sources_excluded() -> None:
    corpus = read_corpus(DATA / "medical" / "medical_corpus.jsonl.gz")
    engine = bm25s.build(bm25s.Config(analyzer="stop"), corpus)
    found = {}
    for rules in ((), ("exclude_sources",)):
        questions = jsonl.build(jsonl.Config(str(PUBMEDQA), rules=rules)).questions
        env = make_env(questions, engine, top_k=3, max_observation_tokens=10_000)
        found[rules] = 0
        for question in questions:
            env.reset(options={"question": question})
            step = env.step(f"<search>{question.text}</search>")[4]["step"]
            assert len(step.hits) == 3
            shown = {hit.passage.id for hit in step.hits}
            found[rules] += bool(shown & set(question.source_ids))
            assert step.excluded == 0 or rules
    # 0.994 (shared/data/SOURCES.md); the first passage is always shown.
    assert found[()] >= 0.98 * len(questions)
    assert found["exclude_sources",] == 0
