"""Scores on a tiny cross-encoder against plain transformers code."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from retrieval.cross_encoders import load_scorer
from retrieval.encoders import load_encoder, recipe_for
from retrieval.errors import InputError
from retrieval.types import Passage
from tests.retrieval.tiny_models import tiny_bert, tiny_cross_encoder

PASSAGES = [
    Passage("a", "Radium", "radium in a river"),
    Passage("b", "", "a heron " * 100),
    Passage("c", "Radium", "radium in a river"),
    Passage("d", "River", "this"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_cross_encoder(tmp_path_factory.mktemp("models") / "cross")


def logits(folder, query, texts):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    for text in texts:
        encoded = tokenizer(query, text, truncation=True, max_length=128, return_tensors="pt")
        with torch.no_grad():
            yield model(**encoded).logits[0, 0].item()


@pytest.mark.parametrize("batch_size", [1, 3, 32])
def test_a_score_is_the_logit_of_the_pair(folder, batch_size):
    texts = ["Radium\nradium in a river", "a heron " * 100, "River\nthis"]
    first, second, fourth = logits(folder, "what is radium", texts)
    found = load_scorer(str(folder), "cpu").score("what is radium", PASSAGES, batch_size)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, [first, second, first, fourth], atol=1e-5)
    assert found[0] == found[2], "equal passages tie to the bit"
    assert len({first, second, fourth}) == 3


def test_any_string_is_a_query(folder):
    scorer = load_scorer(str(folder), "cpu")
    for query in ["\ud800", "\x00", "a" * 100_000]:
        assert np.isfinite(scorer.score(query, PASSAGES, 4)).all()


def test_a_classifier_is_refused(tmp_path):
    folder = tiny_cross_encoder(tmp_path / "classes", labels=3)
    with pytest.raises(InputError, match="gives 3 classes and not one score"):
        load_scorer(str(folder), "cpu")


def test_embedded_is_the_cosine_of_the_embedded_encoder():
    encoder = load_encoder(recipe_for("embedded"), "cpu")
    query = encoder.encode_queries(["radium"], 1)[0]
    found = load_scorer("embedded", "cpu").score("radium", PASSAGES, 8)
    expected = encoder.encode_passages(PASSAGES, 8) @ query
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found[0] == found[2]


def test_what_does_not_load_is_one_line(tmp_path):
    folder = tiny_bert(tmp_path / "broken")
    (folder / "config.json").write_text("{}")
    with pytest.raises(InputError, match=r"^cannot load the model '.*$"):
        load_scorer(str(folder), "cpu")
