"""RowCache against recomputation: whatever happened before, a row reads as if it stood alone."""

import gc
import random
import weakref
from collections.abc import Sequence

import pytest
import torch

import agents.kv_cache as module
from agents.kv_cache import RowCache
from agents.models import load_base
from agents.policy import SearchPolicy

# float64, so that equality means 1e-9 and no mistake hides in rounding.
EXACT = {"atol": 1e-9, "rtol": 0.0}


@pytest.fixture(scope="module")
def exact() -> SearchPolicy:
    return SearchPolicy(*load_base("tiny", torch.float64, torch.device("cpu")))


class Rows:
    """A cache beside the token lists that it should hold."""

    def __init__(self, policy: SearchPolicy, count: int) -> None:
        self.policy = policy
        self.cache = RowCache(policy.num_layers, count, policy.device)
        self.tokens: list[list[int]] = [[] for _ in range(count)]

    @torch.inference_mode()
    def feed(
        self,
        texts: list[list[int]],
        kept: list[int] | None = None,
        rows: Sequence[int] | None = None,
    ) -> torch.Tensor:
        """Feed texts to rows (the first ones); `kept` tokens count; the last states."""
        rows = range(len(texts)) if rows is None else rows
        counts = torch.tensor([len(text) for text in texts])
        width = int(counts.max())
        positions, mask = self.cache.begin(rows, counts)
        ids = torch.tensor([text + [9] * (width - len(text)) for text in texts])
        hidden = self.policy.hidden(ids, mask, positions, self.cache)
        kept = counts.tolist() if kept is None else kept
        self.cache.advance(torch.tensor(kept))
        for row, text, number in zip(rows, texts, kept, strict=True):
            self.tokens[row] += text[:number]
        return hidden[torch.arange(len(texts)), counts - 1]

    @torch.no_grad()
    def alone(self, ids: list[int]) -> torch.Tensor:
        """The last state of a row that stands alone, without a cache."""
        return self.policy.hidden(torch.tensor([ids]))[0, -1]

    def check(self, texts: list[list[int]], rows: Sequence[int] | None = None) -> None:
        rows = range(len(texts)) if rows is None else rows
        before = [list(self.tokens[row]) for row in rows]
        states = self.feed(texts, rows=rows)
        for state, text, read in zip(states, texts, before, strict=True):
            assert torch.allclose(state, self.alone(read + text), **EXACT)
        assert self.cache.lengths.tolist() == [len(row) for row in self.tokens]

    @torch.inference_mode()
    def repeat(self, copies: int) -> None:
        self.cache.repeat(copies)
        self.tokens = [list(row) for row in self.tokens for _ in range(copies)]

    def truncate(self, rows: int) -> None:
        self.cache.truncate(rows)
        del self.tokens[rows:]

    @torch.inference_mode()
    def swap(self, left: list[int], right: list[int]) -> None:
        self.cache.swap(left, right)
        for a, b in zip(left, right, strict=True):
            self.tokens[a], self.tokens[b] = self.tokens[b], self.tokens[a]


def test_ragged_rows_read_as_if_alone(exact) -> None:
    rows = Rows(exact, 3)
    rows.check([[5, 6, 7, 8], [10], [11, 12]])
    rows.check([[20], [21, 22, 23], [24, 25]])


def test_repeat_copies_every_row_side_by_side(exact) -> None:
    rows = Rows(exact, 3)
    rows.check([[5, 6, 7, 8], [10], [11, 12]])
    rows.repeat(2)
    assert rows.cache.lengths.tolist() == [4, 4, 1, 1, 2, 2]
    rows.check([[20], [21, 22], [23], [24, 25, 26], [27], [28]])


def test_truncate_drops_the_last_rows(exact) -> None:
    rows = Rows(exact, 3)
    rows.check([[5, 6, 7, 8], [10], [11, 12]])
    rows.truncate(2)
    assert rows.cache.lengths.tolist() == [4, 1]
    rows.check([[20], [21, 22]])


def test_its_memory_goes_with_it(exact) -> None:
    """At once: the garbage collector would come for it when training has run out of memory."""
    rows = Rows(exact, 2)
    rows.check([[5, 6], [7]])
    memory = [weakref.ref(layer.keys) for layer in rows.cache.layers]
    gc.disable()
    try:
        del rows
        assert [keys() for keys in memory] == [None] * len(memory)
    finally:
        gc.enable()


def test_swap_exchanges_rows(exact) -> None:
    rows = Rows(exact, 4)
    rows.check([[5, 6, 7, 8], [10], [11, 12], [13, 14, 15]])
    rows.swap([0, 1], [3, 2])
    assert rows.cache.lengths.tolist() == [3, 2, 1, 4]
    rows.check([[20], [21], [22], [23]])


def test_rows_behind_the_active_ones_keep_what_they_have(exact) -> None:
    rows = Rows(exact, 3)
    rows.check([[5, 6, 7, 8], [10], [11, 12]])
    rows.check([[20, 21, 22, 23, 24, 25]])
    rows.check([[26], [27], [28]])


def test_rows_may_be_read_in_parts(exact) -> None:
    rows = Rows(exact, 3)
    rows.check([[5, 6, 7, 8], [10]])
    rows.check([[11] * 9], rows=[2])
    rows.check([[20, 21], [22]], rows=[1, 2])
    rows.check([[26], [27], [28]])


def test_tokens_that_did_not_count_are_overwritten(exact) -> None:
    rows = Rows(exact, 2)
    rows.check([[5, 6, 7, 8], [10]])
    rows.feed([[20, 21], [22, 23]], kept=[0, 1])
    rows.check([[30, 31], [32, 33]])


def test_growing_keeps_what_was_written(exact, monkeypatch) -> None:
    monkeypatch.setattr(module, "GROWTH", 4)
    rows = Rows(exact, 2)
    capacities = []
    for start in range(5, 45, 5):
        rows.check([list(range(start, start + 3)), [start]])
        capacities.append(rows.cache.layers[0].keys.shape[2])
    # 3, 6, ... 24 slots in steps of 4.
    assert capacities == [4, 8, 12, 12, 16, 20, 24, 24]


def test_a_mask_shows_exactly_the_row_so_far(exact) -> None:
    rows = Rows(exact, 2)
    rows.feed([[5, 6, 7], [8]])
    positions, mask = rows.cache.begin([0, 1], torch.tensor([1, 2]))
    assert positions.tolist() == [[3, 4], [1, 2]]
    # Row 0 sees slots 0..3 and, in its padding, 4; row 1 sees 0..1, then 0..2.
    assert mask.shape == (2, 1, 2, 5)
    assert mask.int().sum(-1).tolist() == [[[4, 5]], [[2, 3]]]
    assert not mask[1, 0, 0, 2:].any()


@pytest.mark.parametrize("seed", range(12))
def test_any_sequence_of_operations(exact, monkeypatch, seed) -> None:
    monkeypatch.setattr(module, "GROWTH", 5)
    rng = random.Random(seed)
    rows = Rows(exact, 4)
    rows.check([[rng.randrange(1024) for _ in range(rng.randint(1, 6))] for _ in range(4)])
    for _ in range(8):
        count = len(rows.tokens)
        operation = rng.choice(["read", "read", "decode", "repeat", "truncate", "swap"])
        if operation == "repeat" and count < 5:
            rows.repeat(rng.randint(1, 3))
        elif operation == "truncate":
            rows.truncate(rng.randint(1, count))
        elif operation == "swap" and count > 1:
            order = rng.sample(range(count), count // 2 * 2)
            rows.swap(order[::2], order[1::2])
        elif operation == "decode":
            active = rng.randint(1, count)
            alive = [rng.randint(0, 1) for _ in range(active)]
            rows.feed([[rng.randrange(1024)] for _ in range(active)], kept=alive)
        some = rng.sample(range(len(rows.tokens)), rng.randint(1, len(rows.tokens)))
        some = sorted(some) if rng.random() < 0.5 else some
        texts = [[rng.randrange(1024) for _ in range(rng.randint(1, 5))] for _ in some]
        rows.check(texts, some)
