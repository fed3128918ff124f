"""A key-value cache whose rows have lengths of their own and can be re-arranged.

R rows, n new tokens per row, W slots in use, H key-value heads, D head width. Row r holds its
tokens in slots 0 .. lengths[r]-1 without holes, so that turns and observations of different lengths
need no padding between them, and a row's log-probabilities do not depend on its neighbours.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

GROWTH = 128  # slots added at least when the cache grows: a copy every 128 tokens, not every token


class RowCache(Cache):
    """Keys and values of R rows of a decoder with full attention.

    Write to it through the model: `begin` says which rows and where, then a forward pass with
    `cache=self`, the returned mask and positions fills it, then `advance` makes the tokens count.
    """

    def __init__(self, num_layers: int, device: torch.device) -> None:
        self.lengths = torch.zeros(0, dtype=torch.int64, device=device)
        self._rows = slice(0, 0)
        self._row_index = torch.zeros(0, 1, dtype=torch.int64, device=device)
        self._positions = torch.zeros(0, 0, dtype=torch.int64, device=device)
        self._width = 0
        self._row_layers = [_RowLayer(self) for _ in range(num_layers)]
        super().__init__(layers=list(self._row_layers))

    def open(self, rows: int) -> None:
        """Start with `rows` empty rows."""
        self.lengths = torch.zeros(rows, dtype=torch.int64, device=self.lengths.device)

    def begin(self, active: int, counts: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Announce new tokens for rows first .. first+active-1.

        Args:
            active: How many rows the forward pass holds; the other rows keep what they have.
            counts: (active,) new tokens of each row, right-padded to n = counts.max().
            first: The first of these rows.

        Returns:
            Position ids (active, n) and the attention mask (active, 1, n, W) bool.
        """
        new = int(counts.max())
        offsets = torch.arange(new, device=self.lengths.device)
        self._rows = slice(first, first + active)
        self._row_index = torch.arange(first, first + active, device=self.lengths.device)[:, None]
        self._positions = self.lengths[self._rows, None] + offsets
        self._width = int(self._positions.max()) + 1
        slots = torch.arange(self._width, device=self.lengths.device)
        return self._positions, slots <= self._positions[:, None, :, None]

    def advance(self, counts: Tensor) -> None:
        """Let the first counts[r] of row r's tokens count; padding is overwritten later."""
        self.lengths[self._rows] += counts

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order; an index may stand there several times."""
        index = torch.tensor(rows, dtype=torch.int64, device=self.lengths.device)
        self.lengths = self.lengths[index]
        for layer in self._row_layers:
            layer.reorder_cache(index)

    def swap(self, left: Sequence[int], right: Sequence[int]) -> None:
        """Exchange the rows left[i] and right[i]; all indices are distinct."""
        source = torch.tensor([*left, *right], dtype=torch.int64, device=self.lengths.device)
        target = torch.tensor([*right, *left], dtype=torch.int64, device=self.lengths.device)
        self.lengths[target] = self.lengths[source]
        for layer in self._row_layers:
            layer.keys[target] = layer.keys[source]
            layer.values[target] = layer.values[source]


class _RowLayer(CacheLayerMixin):
    """One layer's keys and values: (R, H, capacity, D), zero where nothing was written."""

    keys: Tensor
    values: Tensor

    def __init__(self, owner: RowCache) -> None:
        super().__init__()
        self._owner = owner

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys = self._grown(None, key_states)
        self.values = self._grown(None, value_states)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        owner = self._owner
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if owner._width > self.keys.shape[2]:
            self.keys = self._grown(self.keys, key_states)
            self.values = self._grown(self.values, value_states)
        span, rows = owner._rows, owner._row_index
        # The two index tensors stand around a slice, so the indexed view is (active, n, H, D).
        self.keys[rows, :, owner._positions] = key_states.transpose(1, 2)
        self.values[rows, :, owner._positions] = value_states.transpose(1, 2)
        return (
            self.keys[span, :, : owner._width],
            self.values[span, :, : owner._width],
        )

    def _grown(self, old: Tensor | None, like: Tensor) -> Tensor:
        # Zeros, not empty memory: a masked slot still enters the weighted sum as 0 * value.
        capacity = -(-self._owner._width // GROWTH) * GROWTH
        shape = (len(self._owner.lengths), like.shape[1], capacity, like.shape[3])
        new = like.new_zeros(shape)
        if old is not None:
            new[:, :, : old.shape[2]] = old
        return new

    def reorder_cache(self, beam_idx: Tensor) -> None:
        if self.is_initialized:
            self.keys = self.keys.index_select(0, beam_idx)
            self.values = self.values.index_select(0, beam_idx)

    def get_seq_length(self) -> int:
        return int(self._owner.lengths.max()) if len(self._owner.lengths) else 0

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._owner._width, 0

    def get_max_length(self) -> int:
        return -1
