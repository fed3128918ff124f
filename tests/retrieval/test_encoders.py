"""Presets on tiny models, against plain transformers code; the embedded model by itself."""

import threading
from typing import ClassVar

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from retrieval.encoders import Recipe, has_word, load_encoder, recipe_for, valid_text
from retrieval.errors import InputError
from retrieval.types import Passage
from tests.retrieval.tiny_models import tiny_bert

PASSAGES = [
    Passage("a", "Radium", "radium in a river"),
    Passage("b", "", "a heron"),
    Passage("c", "Radium", "a much longer passage that says this and that for many more words"),
]
QUERIES = ["what is radium", "heron"]


def hidden_states(folder, inputs, max_length=128):
    """(last hidden states, attention mask) by transformers alone, each input by itself."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    for pieces in inputs:
        encoded = tokenizer(*pieces, truncation=True, max_length=max_length, return_tensors="pt")
        with torch.no_grad():
            yield model(**encoded).last_hidden_state[0].numpy()


def mean(folder, texts):
    found = np.stack([states.mean(0) for states in hidden_states(folder, [(t,) for t in texts])])
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def first_token(folder, inputs, max_length=128):
    return np.stack([states[0] for states in hidden_states(folder, inputs, max_length)])


def own_folder(tmp_path, **settings):
    """A model with sentence-transformers' own files, in which it says what it wants."""
    folder = tmp_path / "own"
    SentenceTransformer(str(tiny_bert(tmp_path / "plain")), device="cpu", **settings).save(folder)
    return folder


class TestPresets:
    @pytest.mark.parametrize(
        "name", ["intfloat/e5-base-v2", "intfloat/e5-small", "intfloat/multilingual-e5-large"]
    )
    def test_e5(self, name):
        assert recipe_for(name) == Recipe(
            name, name, "query: ", "passage: ", "mean", True, None, "quoted"
        )

    @pytest.mark.parametrize("name", ["BAAI/bge-base-en-v1.5", "models/bge-small-en"])
    def test_bge(self, name):
        instruction = "Represent this sentence for searching relevant passages: "
        assert recipe_for(name) == Recipe(name, name, instruction, "", "cls", True, None, "line")

    @pytest.mark.parametrize("tower", ["Query", "Article"])
    def test_medcpt_is_two_towers_whichever_is_named(self, tower):
        assert recipe_for(f"ncbi/MedCPT-{tower}-Encoder") == Recipe(
            "ncbi/MedCPT-Article-Encoder",
            "ncbi/MedCPT-Query-Encoder",
            "",
            "",
            "cls",
            False,
            64,
            "pair",
        )

    @pytest.mark.parametrize(
        "name",
        [
            "intfloat/e5-mistral-7b-instruct",
            "intfloat/multilingual-e5-large-instruct",
            "BAAI/bge-m3",
            "ncbi/MedCPT-Cross-Encoder",
            "embedded",
        ],
    )
    def test_what_only_looks_like_one_is_left_to_its_own_folder(self, name):
        assert recipe_for(name) == Recipe(name, name)

    def test_the_user_has_the_last_word(self):
        recipe = recipe_for("intfloat/e5-base-v2", "", "p: ", "cls")
        assert (recipe.query_prefix, recipe.passage_prefix, recipe.pooling) == ("", "p: ", "cls")

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            ({"name": ""}, "encoder is empty"),
            ({"name": "x", "pooling": "best"}, "pooling is 'best'; choose one of mean, cls"),
        ],
    )
    def test_a_wrong_setting_is_refused(self, call, message):
        with pytest.raises(InputError, match=message):
            recipe_for(**call)


class TestAgainstTransformers:
    def test_e5_is_prefixed_mean_pooled_and_normalised(self, tmp_path):
        folder = tiny_bert(tmp_path / "e5-base-v2")
        encoder = load_encoder(recipe_for(str(folder)), "cpu")
        queries = mean(folder, [f"query: {query}" for query in QUERIES])
        np.testing.assert_allclose(encoder.encode_queries(QUERIES, 2), queries, atol=1e-5)
        texts = ['passage: "Radium"\nradium in a river', "passage: a heron"]
        found = encoder.encode_passages(PASSAGES[:2], 2)
        np.testing.assert_allclose(found, mean(folder, texts), atol=1e-5)

    def test_bge_instructs_queries_only_and_takes_the_first_token(self, tmp_path):
        folder = tiny_bert(tmp_path / "bge-base-en-v1.5")
        encoder = load_encoder(recipe_for(str(folder)), "cpu")
        instruction = "Represent this sentence for searching relevant passages: "
        queries = first_token(folder, [(instruction + query,) for query in QUERIES])
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        np.testing.assert_allclose(encoder.encode_queries(QUERIES, 2), queries, atol=1e-5)
        passages = first_token(folder, [("Radium\nradium in a river",), ("a heron",)])
        passages /= np.linalg.norm(passages, axis=1, keepdims=True)
        np.testing.assert_allclose(encoder.encode_passages(PASSAGES[:2], 2), passages, atol=1e-5)

    def test_medcpt_reads_pairs_with_one_tower_and_64_tokens_with_the_other(self, tmp_path):
        article = tiny_bert(tmp_path / "MedCPT-Article-Encoder", seed=1)
        query = tiny_bert(tmp_path / "MedCPT-Query-Encoder", seed=2)
        encoder = load_encoder(recipe_for(str(article)), "cpu")
        pairs = [(passage.title, passage.text) for passage in PASSAGES]
        found = encoder.encode_passages(PASSAGES, 2)
        np.testing.assert_allclose(found, first_token(article, pairs), atol=1e-5)
        assert np.abs(np.linalg.norm(found, axis=1) - 1).min() > 1, "not normalised"
        long = "heron river " * 50
        cut = first_token(query, [(QUERIES[0],), (long,)], max_length=64)
        np.testing.assert_allclose(encoder.encode_queries([QUERIES[0], long], 2), cut, atol=1e-5)

    def test_towers_of_different_width_are_refused(self, tmp_path):
        tiny_bert(tmp_path / "MedCPT-Article-Encoder", hidden=32)
        tiny_bert(tmp_path / "MedCPT-Query-Encoder", hidden=16)
        with pytest.raises(InputError, match=r"16 numbers and .* of 32"):
            load_encoder(recipe_for(str(tmp_path / "MedCPT-Query-Encoder")), "cpu")

    def test_a_model_that_measures_distances_is_refused(self, tmp_path):
        folder = own_folder(tmp_path, similarity_fn_name="euclidean")
        with pytest.raises(InputError, match="compares its vectors by euclidean distance"):
            load_encoder(recipe_for(str(folder)), "cpu")

    def test_the_prompts_of_a_models_own_folder_are_used(self, tmp_path):
        folder = own_folder(tmp_path, prompts={"query": "for this: ", "document": "passage "})
        encoder = load_encoder(recipe_for(str(folder)), "cpu")
        queries = mean(folder, ["for this: heron"])
        np.testing.assert_allclose(encoder.encode_queries(["heron"], 1), queries, atol=1e-5)
        passages = mean(folder, ["passage a heron"])
        np.testing.assert_allclose(encoder.encode_passages(PASSAGES[1:2], 1), passages, atol=1e-5)


@pytest.fixture(scope="module")
def embedded():
    return load_encoder(recipe_for("embedded"), "cpu")


class TestEmbedded:
    TEXTS: ClassVar = [Passage(str(n), "T", "word " * n + "end") for n in (40, 3, 17, 1, 17, 90, 8)]

    def test_vectors_have_length_one_and_say_what_is_alike(self, embedded):
        vectors = embedded.encode_queries(["a wading bird", "heron", "tax law"], 1)
        assert vectors.shape == (3, embedded.dimension) == (3, 384)
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
        assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2

    @pytest.mark.parametrize("batch_size", [1, 2, 7])
    def test_batches_change_nothing_but_the_last_digit(self, embedded, batch_size):
        """In the order that was given, though batches are sorted by length."""
        alone = np.concatenate([embedded.encode_passages([text], 1) for text in self.TEXTS])
        found = embedded.encode_passages(self.TEXTS, batch_size)
        np.testing.assert_allclose(found, alone, atol=1e-6)

    def test_a_query_alone_has_the_same_bits_in_any_list(self, embedded):
        queries = ["radium", "who discovered polonium and radium in Paris", "heron"]
        together = embedded.encode_queries(queries, 1)
        for query, vector in zip(queries, together, strict=True):
            assert np.array_equal(embedded.encode_queries([query], 1)[0], vector)

    def test_equal_passages_have_equal_bits(self, embedded):
        found = embedded.encode_passages(self.TEXTS, 3)
        assert np.array_equal(found[2], found[4])

    def test_nothing_gives_nothing(self, embedded):
        assert embedded.encode_queries([], 8).shape == (0, 384)

    def test_any_string_has_a_vector(self, embedded):
        odd = ["\ud800", "\x00", "", "a" * 100_000, "\U0001f600\u2028", "\udfff\ud83d\ude00"]
        assert np.isfinite(embedded.encode_queries(odd, 2)).all()

    def test_threads_take_turns(self, embedded):
        """Without the lock, the tokenizer raises "Already borrowed"."""
        queries = [["short"], ["a rather longer query that must be padded " * 3, "short"]]
        expected = [embedded.encode_queries(batch, 2) for batch in queries]
        wrong = []

        def ask(which):
            for _ in range(10):
                found = embedded.encode_queries(queries[which], 2)
                if not np.array_equal(found, expected[which]):
                    wrong.append(which)

        threads = [threading.Thread(target=ask, args=(place % 2,)) for place in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


@pytest.mark.parametrize(
    ("query", "expected"),
    [("", False), (" \n\t", False), ("?!", False), ("\u2014", False), ("a?", True), ("東", True)],
)
def test_a_query_without_a_word(query, expected):
    assert has_word(query) is expected


@pytest.mark.parametrize(
    ("text", "valid"), [("a\ud800b", "a\ufffdb"), ("\ud83d\ude00", "\U0001f600"), ("é", "é")]
)
def test_lone_surrogates_are_replaced_and_pairs_joined(text, valid):
    assert valid_text(text) == valid
