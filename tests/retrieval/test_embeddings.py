import numpy as np
import pytest

from retrieval import embeddings
from retrieval.embeddings import ChunkedEmbeddings
from retrieval.errors import InputError
from retrieval.types import Passage

PASSAGES = [Passage(str(number), "", f"text {number}") for number in range(25)]
# Chunks of 10: three, the last with 5 rows.
VECTORS = np.arange(75, dtype=np.float32).reshape(25, 3)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(embeddings, "CHUNK_PASSAGES", 10)


class Encoder:
    """Row n for passage n; stops like a killed process after so many passages."""

    def __init__(self, stop_after=None):
        self.seen = []
        self.stop_after = stop_after

    def __call__(self, passages):
        if self.stop_after is not None and len(self.seen) >= self.stop_after:
            raise KeyboardInterrupt
        self.seen += [int(passage.id) for passage in passages]
        return VECTORS[self.seen[-len(passages) :]]


def test_the_rows_are_those_of_the_passages(tmp_path):
    chunks = ChunkedEmbeddings(tmp_path, (25, 3))
    chunks.encode(PASSAGES, Encoder())
    assert [len(chunk) for chunk in chunks] == [10, 10, 5]
    assert np.array_equal(np.concatenate(list(chunks)), VECTORS)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "000000.npy",
        "000001.npy",
        "000002.npy",
    ]


def test_a_killed_encoding_goes_on_with_the_first_missing_chunk(tmp_path):
    chunks = ChunkedEmbeddings(tmp_path, (25, 3))
    with pytest.raises(KeyboardInterrupt):
        chunks.encode(PASSAGES, Encoder(stop_after=20))
    (tmp_path / "000002.npy.new").write_bytes(b"half a chunk")
    (tmp_path / "000000.npy").unlink()
    encoder = Encoder()
    chunks.encode(PASSAGES, encoder)
    assert encoder.seen == [*range(10), *range(20, 25)]
    assert np.array_equal(np.concatenate(list(chunks)), VECTORS)


@pytest.mark.parametrize("size", [1, 7, 24])
def test_a_sample_is_some_rows_in_order_and_always_the_same(tmp_path, size):
    chunks = ChunkedEmbeddings(tmp_path, (25, 3))
    chunks.encode(PASSAGES, Encoder())
    sample = chunks.sample(size)
    numbers = sample[:, 0] / 3  # row n begins with 3 n
    assert sample.shape == (size, 3)
    assert (np.diff(numbers) > 0).all()
    assert np.array_equal(sample, VECTORS[numbers.astype(int)])
    assert np.array_equal(chunks.sample(size), sample)


def test_a_sample_of_more_than_all_is_all(tmp_path):
    chunks = ChunkedEmbeddings(tmp_path, (25, 3))
    chunks.encode(PASSAGES, Encoder())
    assert np.array_equal(chunks.sample(1000), VECTORS)


@pytest.mark.parametrize("rows", [VECTORS[:9], VECTORS[:10, :2], VECTORS[:10].astype(np.float64)])
def test_a_foreign_chunk_is_refused(tmp_path, rows):
    chunks = ChunkedEmbeddings(tmp_path, (25, 3))
    chunks.encode(PASSAGES, Encoder())
    np.save(tmp_path / "000000.npy", rows)
    with pytest.raises(InputError, match=r"000000\.npy: not a chunk of this build"):
        list(chunks)


def test_a_damaged_chunk_is_refused(tmp_path):
    chunks = ChunkedEmbeddings(tmp_path, (25, 3))
    chunks.encode(PASSAGES, Encoder())
    (tmp_path / "000001.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(InputError, match=r"000001\.npy: cannot be read"):
        chunks.sample(25)
