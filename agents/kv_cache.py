"""A key-value cache whose rows have lengths of their own and can be re-arranged.

R rows, n new tokens per row, W slots in use, H key-value heads, D head width. Row r holds its
tokens in slots 0 .. lengths[r]-1 without holes, so that turns and observations of different lengths
need no padding between them, and a row's log-probabilities do not depend on its neighbours.
"""

import math
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from .host_memory import mapping

GROWTH = 128  # slots are added in steps of so many: a copy every 128 tokens, not every token


class RowCache(Cache):
    """Keys and values of R rows of a decoder with full attention.

    Write to it through the model: `begin` says which rows and where, then a forward pass with
    `cache=self`, the returned mask and positions fills it, then `advance` makes the tokens count.

    Its memory goes with it, so that training has the room.
    """

    def __init__(self, num_layers: int, rows: int, device: torch.device) -> None:
        """Start with `rows` empty rows."""
        self.lengths = torch.zeros(rows, dtype=torch.int64, device=device)
        self._rows: slice | Tensor = slice(0, 0)
        self._row_index = torch.zeros(0, 1, dtype=torch.int64, device=device)
        self._positions = torch.zeros(0, 0, dtype=torch.int64, device=device)
        self._width = 0
        self._row_layers = [_RowLayer(self) for _ in range(num_layers)]
        super().__init__(layers=list(self._row_layers))

    def begin(self, rows: Sequence[int], counts: Tensor) -> tuple[Tensor, Tensor]:
        """Announce new tokens for some rows; the others keep what they have.

        Args:
            rows: Distinct. Neighbours in their order are read in place, others are copied together.
            counts: (len(rows),) new tokens of each, right-padded to n = counts.max().

        Returns:
            Position ids (len(rows), n) and the attention mask (len(rows), 1, n, W) bool.
        """
        new = int(counts.max())
        offsets = torch.arange(new, device=self.lengths.device)
        index = torch.tensor(rows, dtype=torch.int64, device=self.lengths.device)
        neighbours = list(rows) == list(range(rows[0], rows[0] + len(rows)))
        self._rows = slice(rows[0], rows[0] + len(rows)) if neighbours else index
        self._row_index = index[:, None]
        self._positions = self.lengths[self._rows, None] + offsets
        self._width = int(self._positions.max()) + 1
        slots = torch.arange(self._width, device=self.lengths.device)
        return self._positions, slots <= self._positions[:, None, :, None]

    def advance(self, counts: Tensor) -> None:
        """Let the first counts[r] of row r's tokens count; padding is overwritten later."""
        self.lengths[self._rows] += counts

    def repeat(self, copies: int) -> None:
        """Every row becomes `copies` equal rows, side by side."""
        for layer in self._row_layers:
            layer.repeat(copies)
        self.lengths = self.lengths.repeat_interleave(copies)

    def swap(self, left: Sequence[int], right: Sequence[int]) -> None:
        """Exchange the rows left[i] and right[i]; all indices are distinct."""
        source = torch.tensor([*left, *right], dtype=torch.int64, device=self.lengths.device)
        target = torch.tensor([*right, *left], dtype=torch.int64, device=self.lengths.device)
        slots = int(self.lengths[source].max()) if len(source) else 0
        for layer in self._row_layers:
            layer.keys[target, :, :slots] = layer.keys[source, :, :slots]
            layer.values[target, :, :slots] = layer.values[source, :, :slots]
        self.lengths[target] = self.lengths[source]

    def truncate(self, rows: int) -> None:
        """Drop all rows from the given number on."""
        self.lengths = self.lengths[:rows]


class _RowLayer(CacheLayerMixin):
    """One layer's keys and values: (rows, H, slots, D), finite wherever nothing was written."""

    keys: Tensor
    values: Tensor

    def __init__(self, owner: RowCache) -> None:
        super().__init__()
        # Weak: in a cycle the memory would wait for the garbage collector, and training for it.
        self._owner: RowCache = weakref.proxy(owner)

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        heads, width = key_states.shape[1], key_states.shape[3]
        self.keys = key_states.new_zeros(0, heads, 0, width)
        self.values = value_states.new_zeros(0, heads, 0, value_states.shape[3])
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        owner = self._owner
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self._hold(len(owner.lengths), owner._width)
        index = owner._row_index
        # The two index tensors stand around a slice, so the indexed view is (rows, n, H, D).
        self.keys[index, :, owner._positions] = key_states.transpose(1, 2)
        self.values[index, :, owner._positions] = value_states.transpose(1, 2)
        return self._read(self.keys), self._read(self.values)

    def _read(self, memory: Tensor) -> Tensor:
        used, rows = memory[:, :, : self._owner._width], self._owner._rows
        # index_select copies whole rows; an index would go number by number.
        return used[rows] if isinstance(rows, slice) else used.index_select(0, rows)

    def repeat(self, copies: int) -> None:
        """As `RowCache.repeat`."""
        if not self.is_initialized or copies == 1:
            return
        rows, slots = len(self._owner.lengths), self.get_seq_length()
        self._hold(rows * copies, slots)
        for memory in (self.keys, self.values):
            once = memory[:rows, :, :slots].clone()
            memory[: rows * copies, :, :slots] = once.repeat_interleave(copies, dim=0)

    def _hold(self, rows: int, slots: int) -> None:
        if rows > self.keys.shape[0] or slots > self.keys.shape[2]:
            self.keys = _grown(self.keys, rows, slots)
            self.values = _grown(self.values, rows, slots)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        raise NotImplementedError("RowCache: beams are not supported")

    def get_seq_length(self) -> int:
        return int(self._owner.lengths.max()) if len(self._owner.lengths) else 0

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._owner._width, 0

    def get_max_length(self) -> int:
        return -1


def _grown(old: Tensor, rows: int, slots: int) -> Tensor:
    """The same content in more room; zeros, not empty memory: a masked slot is 0 * value."""
    slots = max(old.shape[2], -(-slots // GROWTH) * GROWTH)
    new = _zeros((max(rows, old.shape[0]), old.shape[1], slots, old.shape[3]), old)
    new[: old.shape[0], :, : old.shape[2]] = old
    return new


def _zeros(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """On a CPU not of the heap, where the blocks that were outgrown would stay as holes."""
    count = math.prod(shape)
    if like.device.type != "cpu" or count == 0:
        return like.new_zeros(shape)
    memory = mapping(count * like.itemsize)
    return torch.frombuffer(memory, dtype=like.dtype, count=count).view(shape)
