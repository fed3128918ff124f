"""The table of `retrieval.faiss_types`, and each type against exact search."""

import math

import faiss
import numpy as np
import pytest

from retrieval.embeddings import CHUNK_PASSAGES, ChunkedEmbeddings
from retrieval.errors import InputError
from retrieval.faiss_types import (
    NAMES,
    bytes_per_passage,
    check_type,
    factory,
    fill,
    fixed_bytes,
    make_empty,
    memory_to_build,
    num_lists,
    set_effort,
    training_size,
)
from retrieval.vector_index import VectorIndex, write_index
from tests.retrieval.memory import needs_proc, private_bytes


def clustered(count, dimension, seed=0):
    """Unit vectors around 50 centres: neighbours are nearer than strangers, as with texts."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(50, dimension))
    rows = centres[draw.integers(50, size=count)] + 0.7 * draw.normal(size=(count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


class Chunks(ChunkedEmbeddings):
    """Vectors that are at hand already."""

    def __init__(self, vectors):
        self.vectors = vectors
        self.shape = vectors.shape

    def _read(self, number, rows):
        return self.vectors[number * CHUNK_PASSAGES :][:rows]


def built(name, vectors):
    index = make_empty(factory(name, *vectors.shape), vectors.shape[1])
    fill(index, Chunks(vectors))
    return index


@pytest.mark.parametrize(
    ("name", "passages", "dimension", "expected"),
    [
        ("flat", 5_000, 384, "Flat"),
        ("hnsw", 99_999, 384, "HNSW16"),
        ("hnsw", 100_000, 384, "HNSW32"),
        ("ivf", 1_000_000, 384, "IVF4000,Flat"),  # 4 sqrt(10^6)
        ("ivf", 5_000, 384, "IVF128,Flat"),  # 4 sqrt(5000) = 283, but 5000 / 39 = 128.2
        ("ivf_sq8", 21_000_000, 768, "IVF18330,SQ8"),  # 4 sqrt(21e6) = 18330.3
        ("ivf_sq8", 38, 384, "IVF1,SQ8"),
        ("pq", 5_000, 384, "PQ48x8"),
        ("pq", 5_000, 100, "PQ10x8"),  # 12 does not divide 100; 10 is the largest that does
        ("pq", 200, 384, "PQ48x7"),  # 2^7 = 128 centroids, of 200 passages
        ("pq", 1, 384, "Flat"),
        ("IVF64,PQ16", 9, 384, "IVF64,PQ16"),
    ],
)
def test_a_type_is_a_factory_string_that_suits_the_corpus(name, passages, dimension, expected):
    assert factory(name, passages, dimension) == expected


@pytest.mark.parametrize("name", ["", "Flat!", "sq8", "HNSW 32", "flat,ivf"])
def test_what_cannot_be_a_type_is_refused(name):
    with pytest.raises(InputError, match=r"^type is '.*'; choose one of flat, hnsw, ivf, .*$"):
        check_type(name)


@pytest.mark.parametrize("name", [*NAMES, "IVF4096,SQ8", "OPQ16_64,IVF256(IVF16,Flat),PQ16x4fs"])
def test_names_and_factory_strings_pass(name):
    check_type(name)


@pytest.mark.parametrize(("kind", "cause"), [("Foo", "could not parse"), ("PQ7", "multiple of")])
def test_what_faiss_cannot_make_is_refused_in_its_words(kind, cause):
    with pytest.raises(InputError, match=f"^type '{kind}': .*{cause}.*$"):
        make_empty(kind, 384)


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("Flat", 0),
        ("HNSW32", 0),
        ("IVF100,Flat", 16_384),
        ("IVF4000,Flat", 256_000),  # 64 a list
        ("IVF4000,SQ8", 256_000),
        ("PQ48x8", 65_536),  # 256 for each of 256 centroids
        ("OPQ48,IVF100,PQ48", 65_536),
        ("IVF1000000,Flat", 1_000_000),  # never more than there are
    ],
)
def test_the_training_sample_is_bounded(kind, size):
    assert training_size(make_empty(kind, 384), 1_000_000) == size


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Flat", 4 * 384),
        ("IVF64,Flat", 4 * 384 + 8),
        ("IVF64,SQ8", 384 + 8),
        ("SQ8", 384),
        ("PQ48x8", 48),
        ("PQ48x4", 24),
        # 32 links below and 16 * (1/16 + 1/256 + ...) = 16/15 above, each 4 bytes; 4 + 8 bytes
        ("HNSW16", 4 * 384 + 4 * (32 + 16 / 15) + 12),
        ("OPQ48,IVF64,PQ48", 48 + 8),
        ("IVF64,PQ48,RFlat", 48 + 8 + 4 * 384),
    ],
)
def test_bytes_a_passage(kind, expected):
    assert bytes_per_passage(make_empty(kind, 384)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", [*NAMES, "OPQ4,IVF16,SQ8", "IVF16,PQ4x4,RFlat", "SQ8"])
def test_the_arithmetic_is_the_size_of_the_file(name, tmp_path):
    vectors = clustered(3000, 32)
    index = built(name, vectors)
    write_index(index, tmp_path / "index")
    expected = len(vectors) * bytes_per_passage(index) + fixed_bytes(index)
    # A header, and of the graph that chance gave some passages more floors than others.
    assert (tmp_path / "index").stat().st_size == pytest.approx(expected, rel=0.02, abs=20_000)


@pytest.mark.parametrize(
    ("kind", "passages", "expected"),
    [
        ("Flat", 1000, 1000 * 4 * 64),
        # lists half as large again, their centroids and ids; the sample (all) twice
        ("IVF4,SQ8", 1000, 1.5 * 1000 * 72 + 4 * (256 + 16) + 2 * 1000 * 256),
    ],
)
def test_memory_to_build(kind, passages, expected):
    assert memory_to_build(make_empty(kind, 64), passages) == expected


class Watched(ChunkedEmbeddings):
    """Chunk files, and the most memory that was held when one was asked for."""

    most = 0

    def _read(self, number, rows):
        self.most = max(self.most, private_bytes())
        return super()._read(number, rows)


@needs_proc
@pytest.mark.parametrize("kind", ["Flat", "IVF16,Flat", "IVF16,SQ8", "SQ8"])
def test_building_holds_the_index_and_the_sample_and_no_more(kind, tmp_path):
    """Of 30,000 vectors, which are 31 MB as float32, 8 chunks."""
    vectors = clustered(30_000, 256)
    for number in range(8):
        rows = vectors[number * CHUNK_PASSAGES :][:CHUNK_PASSAGES]
        np.save(tmp_path / f"{number:06}.npy", rows)
    shape = vectors.shape
    del vectors
    index, chunks = make_empty(kind, 256), Watched(tmp_path, shape)
    allowed, before = memory_to_build(index, shape[0]) + 10e6, private_bytes()
    fill(index, chunks)
    assert max(chunks.most, private_bytes()) - before <= allowed


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [1, 2, 3, 300])
def test_small_corpora_work(name, count, capfd, tmp_path):
    vectors = clustered(count, 32)
    write_index(built(name, vectors), tmp_path / "index")
    index = VectorIndex(tmp_path / "index")
    set_effort(index.index, 0, 64)
    (places, scores), *_ = index.nearest(vectors[:1], count)
    assert len(set(places.tolist())) == len(places) <= count
    if name != "pq":  # whose codes of 3 passages say little
        assert places[scores.argmax()] == 0
    assert "WARNING" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("name", "least"),
    [("flat", 1.0), ("hnsw", 0.99), ("ivf", 0.97), ("ivf_sq8", 0.95), ("pq", 0.3)],
)
def test_each_type_finds_what_exact_search_finds(name, least, tmp_path):
    """Recall@10 of 200 queries; the real corpus is in test_dense_recall.py."""
    vectors, queries = clustered(3000, 32), clustered(200, 32, seed=1)
    write_index(built(name, vectors), tmp_path / "index")
    index = VectorIndex(tmp_path / "index")
    set_effort(index.index, 0, 128)
    exact = np.argsort(-(queries @ vectors.T), axis=1)[:, :10]
    found = [places for places, _ in index.nearest(queries, 10)]
    shared = [len(set(a.tolist()) & set(b.tolist())) for a, b in zip(exact, found, strict=True)]
    assert np.mean(shared) / 10 >= least


@pytest.mark.parametrize("name", NAMES)
def test_two_builds_are_equal_to_the_byte(name, tmp_path):
    vectors = clustered(600, 32)
    for file in ("one", "two"):
        write_index(built(name, vectors), tmp_path / file)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_threads_are_left_as_they_were():
    before = faiss.omp_get_max_threads()
    built("hnsw", clustered(100, 32))
    assert faiss.omp_get_max_threads() == before


@pytest.mark.parametrize(
    "kind",
    [
        "IVF4096,Flat",  # more lists than passages
        "IVF4,PQ8x4fs",  # gives no vectors back
        "IDMap,Flat",  # adds only with ids
    ],
)
def test_what_cannot_be_built_or_searched_is_refused(kind):
    with pytest.raises(InputError, match=r"^type: FAISS cannot index 200 passages this way \(.*$"):
        built(kind, clustered(200, 32))


@pytest.mark.parametrize(
    ("nprobe", "lists", "expected"),
    [(0, 100, 80), (0, 300, 139), (0, 8, 8), (5, 300, 5), (9, 8, 8)],
)
def test_lists_read(nprobe, lists, expected):
    index = make_empty(f"OPQ8,IVF{lists},PQ8", 64)
    set_effort(index, nprobe, 1)
    assert faiss.extract_index_ivf(index).nprobe == expected


def test_nodes_kept():
    index = make_empty("HNSW16", 64)
    set_effort(index, 0, 77)
    assert index.hnsw.efSearch == 77


@pytest.mark.parametrize("passages", [1, 39, 77, 78, 152_100, 10**7])
def test_lists_have_enough_passages_to_be_trained(passages):
    lists = num_lists(passages)
    assert 1 <= lists <= math.ceil(4 * math.sqrt(passages))
    assert lists == 1 or passages >= 39 * lists
