"""The dense engine with the embedded encoder and real FAISS indexes."""

import copy
import dataclasses
import pickle
import random

import numpy as np
import pytest

from retrieval import embeddings, estimate
from retrieval.corpus import Corpus
from retrieval.encoders import Encoder, load_encoder, recipe_for
from retrieval.errors import InputError
from retrieval.index import build_index, open_index
from retrieval.retrievers import dense
from retrieval.retrievers.dense import Config, build, read, write
from retrieval.store import write_store
from retrieval.types import Passage
from tests.retrieval.tiny_models import tiny_bert

NOUNS = ["heron", "river", "glacier", "vaccine", "court", "violin", "enzyme", "harbour", "poem"]
VERBS = ["crosses", "measures", "forgets", "inherits", "describes", "protects", "divides"]


def sentences(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        yield f"The {draw.choice(NOUNS)} {draw.choice(VERBS)} the {draw.choice(NOUNS)}."


@pytest.fixture(scope="module")
def corpus():
    """700 passages of 567 possible texts, so with many twins; ids are not in corpus order."""
    texts = list(sentences(700, 0))
    ids = random.Random(1).sample(range(700), 700)
    return Corpus.of(Passage(f"p{n:03}", "", text) for n, text in zip(ids, texts, strict=True))


@pytest.fixture(scope="module")
def flat(corpus):
    return build(Config(device="cpu"), corpus)


def ids_and_scores(answers):
    return [[(hit.passage.id, hit.score) for hit in hits] for hits in answers]


def test_flat_is_brute_force_numpy_for_500_queries(corpus, flat):
    """Ids and scores exactly; numpy too rounds to 6 decimals and breaks ties by id."""
    encoder = load_encoder(recipe_for("embedded"), "cpu")
    slices = [corpus.passages[start:][:256] for start in (0, 256, 512)]
    passages = np.concatenate([encoder.encode_passages(some, 32) for some in slices])
    queries = encoder.encode_queries(list(sentences(500, 2)), 64)
    scores = (queries.astype(np.float64) @ passages.T.astype(np.float64)).round(6)
    expected = []
    for row in scores:
        ranked = sorted(zip((p.id for p in corpus.passages), row.tolist(), strict=True), key=order)
        expected.append(ranked[:10])
    assert ids_and_scores(flat.nearest(queries, 10)) == expected


def order(pair):
    return -pair[1], pair[0]


def test_search_encodes_each_query_by_itself(flat):
    queries = list(sentences(5, 3))
    encoder = load_encoder(recipe_for("embedded"), "cpu")
    vectors = np.concatenate([encoder.encode_queries([query], 1) for query in queries])
    assert flat.search(queries, 5) == flat.nearest(vectors, 5)


def test_it_finds_by_meaning():
    passages = [
        Passage("1", "", "The court fined the company for late tax returns."),
        Passage("2", "", "Herons stand in shallow water and spear fish."),
        Passage("3", "", "The orchestra tuned before the symphony."),
    ]
    engine = build(Config(device="cpu"), Corpus.of(passages))
    answers = engine.search(["a bird catching prey", "musicians", "legal penalty"], 1)
    assert [hits[0].passage.id for hits in answers] == ["2", "3", "1"]


@pytest.mark.parametrize("query", ["", " \n\t ", "?!", "\u2014 \u2026", "\x00"])
def test_a_query_without_a_word_has_no_hits(flat, query):
    assert flat.search([query, "heron", query], 2)[::2] == [[], []]


@pytest.mark.parametrize("query", ["heron\x00", "a" * 100_000, "\ud800 heron", "the of and"])
def test_any_other_query_has_k(flat, query):
    assert len(flat.search([query], 3)[0]) == 3


def test_k_above_the_corpus_gives_all(flat, corpus):
    (hits,) = flat.search(["heron"], 10**9)
    assert {hit.passage.id for hit in hits} == {passage.id for passage in corpus.passages}


@pytest.mark.parametrize("kind", ["hnsw", "ivf", "ivf_sq8", "pq", "IVF4,SQ8,RFlat"])
def test_each_type_agrees_with_flat_on_the_best(flat, corpus, kind):
    """Every sentence is asked for by itself: among its 10 hits there is one with that text."""
    engine = build(Config(type=kind, device="cpu"), corpus)
    texts = sorted({passage.text for passage in corpus.passages})[::20]
    found = [{hit.passage.text for hit in hits} for hits in engine.search(texts, 10)]
    assert np.mean([text in hits for text, hits in zip(texts, found, strict=True)]) >= 0.9


def test_search_settings_reach_the_index(corpus):
    engine = build(Config(type="ivf", nprobe=3, device="cpu"), corpus)
    assert engine._index.index.nprobe == 3
    engine = build(Config(type="hnsw", ef_search=33, device="cpu"), corpus)
    assert engine._index.index.hnsw.efSearch == 33


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_a_copy_maps_the_same_index(flat, copied):
    """gymnasium.make deep-copies what it is given."""
    assert copied(flat).search(["heron"], 3) == flat.search(["heron"], 3)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"type": "best"}, "^type is 'best'; choose one of flat, "),
        ({"encoder": ""}, "^encoder is empty"),
        ({"pooling": "sum"}, "^pooling is 'sum'"),
        ({"nprobe": -1}, "^nprobe is -1"),
        ({"ef_search": 0}, "^ef_search is 0"),
        ({"batch_size": 0}, "^batch_size is 0"),
        ({"query_batch": 0}, "^query_batch is 0"),
    ],
)
def test_a_wrong_setting_is_refused(setting, message):
    with pytest.raises(InputError, match=message):
        Config(**setting)


@pytest.fixture
def model(tmp_path):
    return str(tiny_bert(tmp_path / "tiny"))


class TestIndexFolder:
    @pytest.fixture
    def small(self, monkeypatch):
        """Chunks of 100 passages: 7 of them."""
        monkeypatch.setattr(embeddings, "CHUNK_PASSAGES", 100)

    def test_what_is_left_is_the_index_and_what_tells_the_encoder(self, corpus, model, tmp_path):
        write(Config(model, device="cpu"), corpus, tmp_path / "engine")
        names = sorted(file.name for file in (tmp_path / "engine").iterdir())
        assert names == ["encoder.json", "index.faiss"]

    @pytest.mark.parametrize("kind", ["flat", "ivf_sq8"])
    def test_a_killed_build_encodes_only_what_is_missing(
        self, corpus, model, tmp_path, monkeypatch, small, kind
    ):
        """And becomes byte for byte what it would have been."""
        config = Config(model, type=kind, device="cpu")
        write(config, corpus, tmp_path / "whole")
        encoded, encode = [], Encoder.encode_passages

        def counting(self, passages, batch_size):
            if len(encoded) == 3:
                encoded.append("killed")
                raise KeyboardInterrupt
            if len(passages) > 1:  # not the probe
                encoded.append(len(passages))
            return encode(self, passages, batch_size)

        monkeypatch.setattr(Encoder, "encode_passages", counting)
        with pytest.raises(KeyboardInterrupt):
            write(config, corpus, tmp_path / "engine")
        chunks = tmp_path / "engine" / "embeddings"
        assert len(list(chunks.glob("*.npy"))) == 3
        write(config, corpus, tmp_path / "engine")
        assert encoded == [100, 100, 100, "killed", 100, 100, 100, 100]
        assert not chunks.exists()
        whole, resumed = (tmp_path / name / "index.faiss" for name in ("whole", "engine"))
        assert whole.read_bytes() == resumed.read_bytes()

    def test_killed_after_the_index_it_only_tidies_up(self, corpus, model, tmp_path, monkeypatch):
        config, engine = Config(model, device="cpu"), tmp_path / "engine"
        write(config, corpus, engine)
        (engine / "encoder.json").unlink()
        (engine / "embeddings").mkdir()
        monkeypatch.setattr(dense, "write_index", None)
        write(config, corpus, engine)
        assert read(config, corpus, engine).search(["heron"], 1)[0]
        assert not (engine / "embeddings").exists()

    def test_another_encoder_of_the_same_name_is_refused(self, corpus, model, tmp_path):
        config, engine = Config(model, device="cpu"), tmp_path / "engine"
        write(config, corpus, engine)
        load_encoder.cache_clear()
        tiny_bert(tmp_path / "other", seed=5)
        weights = (tmp_path / "other" / "model.safetensors").read_bytes()
        (tmp_path / "tiny" / "model.safetensors").write_bytes(weights)
        with pytest.raises(InputError, match="was built with another encoder than"):
            read(config, corpus, engine)
        load_encoder.cache_clear()

    def test_so_is_another_prefix(self, corpus, model, tmp_path):
        config, engine = Config(model, device="cpu"), tmp_path / "engine"
        write(config, corpus, engine)
        with pytest.raises(InputError, match="was built with another encoder than"):
            read(dataclasses.replace(config, passage_prefix="passage: "), corpus, engine)

    def test_an_index_of_fewer_passages_is_refused(self, corpus, model, tmp_path):
        config, engine = Config(model, device="cpu"), tmp_path / "engine"
        write(config, corpus, engine)
        with pytest.raises(InputError, match="indexes 700 of 2 passages; build it again"):
            read(config, Corpus.of(corpus.passages[:2]), engine)

    def test_a_damaged_probe_is_refused(self, corpus, model, tmp_path):
        config, engine = Config(model, device="cpu"), tmp_path / "engine"
        write(config, corpus, engine)
        (engine / "encoder.json").write_text("{}")
        with pytest.raises(InputError, match=r"encoder\.json is damaged"):
            read(config, corpus, engine)


class TestRoom:
    """T24: what does not fit is refused before anything is encoded."""

    @pytest.mark.parametrize(("what", "other"), [("memory", "disk"), ("disk", "memory")])
    def test_a_build_that_does_not_fit_is_refused(
        self, corpus, model, tmp_path, monkeypatch, what, other
    ):
        write_store(corpus.passages, tmp_path)
        # The index is 700 * 32 * 4 bytes = 0.09 MB, and on the disk as much again of embeddings.
        monkeypatch.setattr(estimate, f"{what}_free", lambda *_: 80_000)
        monkeypatch.setattr(estimate, f"{other}_free", lambda *_: 10**12)
        config = Config(model, device="cpu")
        message = rf"^this index needs 0\.00 GB of {what} and 0\.00 GB are free \(by arithmetic.*$"
        with pytest.raises(InputError, match=message):
            build_index(tmp_path / "passages.jsonl", tmp_path / "index", "dense", config)
        assert not (tmp_path / "index").exists()
        assert not list(tmp_path.rglob("*.npy"))

    def test_what_is_encoded_already_counts_as_room(self, corpus, model, tmp_path, monkeypatch):
        """Full but for what the killed build holds: index and embeddings are 89,600 bytes each."""
        chunks = tmp_path / "engine" / "embeddings"
        chunks.mkdir(parents=True)
        config = Config(model, device="cpu")
        encoder = load_encoder(recipe_for(model), "cpu")
        np.save(chunks / "000000.npy", encoder.encode_passages(corpus.passages, 32))
        monkeypatch.setattr(estimate, "disk_free", lambda *_: 89_600)
        write(config, corpus, tmp_path / "engine")
        assert read(config, corpus, tmp_path / "engine").search(["heron"], 1)[0]

    @pytest.mark.parametrize("kind", ["flat", "ivf_sq8"])
    def test_the_estimate_is_arithmetic_and_a_measured_sample(self, corpus, model, tmp_path, kind):
        write_store(corpus.passages, tmp_path)
        file = tmp_path / "passages.jsonl"
        needs = dense.estimate(Config(model, type=kind, device="cpu"), file, 700)
        vectors = 700 * 4 * 32
        lists = 17  # 700 / 39
        index = {"flat": vectors, "ivf_sq8": 700 * (32 + 8) + lists * (4 * 32 + 16)}[kind]
        # The text is guessed from a sample of 256 passages with room for its JSON.
        store = file.stat().st_size + 8 * 700
        assert needs.disk_bytes == pytest.approx(index + vectors + store, rel=0.1)
        assert needs.passages == 700
        assert needs.seconds > 0
        assert needs.memory_bytes > estimate.peak_memory()
        assert "by arithmetic" in needs.note

    def test_the_command_says_so_and_builds_nothing(self, corpus, model, tmp_path, capsys):
        from retrieval.build_index import main

        write_store(corpus.passages, tmp_path)
        arguments = ["--corpus", str(tmp_path / "passages.jsonl"), "--retriever", "dense"]
        arguments += ["--index.encoder", model, "--index.type", "pq", "--out", str(tmp_path / "x")]
        assert main([*arguments, "--dry-run"]) == 0
        assert "by arithmetic: " in capsys.readouterr().out
        assert not (tmp_path / "x").exists()
        assert main(arguments) == 0
        assert open_index(tmp_path / "x").retriever.search(["heron"], 2)[0]
