"""One forward and backward pass over a prompt for all rows that begin with it.

The samples of a group differ only after their prompt. Keys and values of the prompt are computed
once, and every row attends to them; the gradients of its rows meet there, by the chain rule.
The function is that of a pass over whole rows (Prefix Grouper, arXiv:2506.05433).

B rows, G prompts of at most P tokens, R tokens of a row after its prompt, H hidden width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

# Two passes take more calls, and a mask, than one: they have to leave out a tenth of the tokens.
WORTH = 0.9

# (source (B, T) or (B, T, H), mask (B, 1, T, W), positions (B, T), cache) -> states (B, T, H).
Forward = Callable[[Tensor, Tensor | None, Tensor | None, Cache | None], Tensor]


def prompts_of(input_ids: Tensor, openings: Tensor) -> list[tuple[int, ...]]:
    """The first openings[i] tokens of each row: (B, T) and (B,) int64."""
    pairs = zip(input_ids.tolist(), openings.tolist(), strict=True)
    return [tuple(row[:opening]) for row, opening in pairs]


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows of which some begin with the same prompt.

    Attributes:
        first: (G,) int64, a row that begins with each prompt.
        prompt: (B,) int64, the prompt of each row.
        openings: (B,) int64, its tokens.
        counts: (B,) int64, tokens of each row in all.
    """

    first: Tensor
    prompt: Tensor
    openings: Tensor
    counts: Tensor

    @classmethod
    def of(cls, prompts: Sequence[tuple[int, ...]], counts: Tensor) -> "Layout":
        """From the prompt of each row and the tokens that are asked for, (B,)."""
        found: dict[tuple[int, ...], int] = {}
        numbers = [found.setdefault(prompt, len(found)) for prompt in prompts]
        first = [numbers.index(number) for number in range(len(found))]
        openings = [len(prompt) for prompt in prompts]
        as_tensor = partial(torch.tensor, dtype=torch.int64, device=counts.device)
        return cls(as_tensor(first), as_tensor(numbers), as_tensor(openings), counts)

    @property
    def is_worth_it(self) -> bool:
        """Whether two passes over fewer tokens are cheaper than one, padding included."""
        if len(self.first) == len(self.prompt):
            return False
        apart = len(self.first) * self._longest_prompt + len(self.prompt) * self._longest_rest
        return apart <= WORTH * len(self.prompt) * int(self.counts.max())

    @property
    def _longest_prompt(self) -> int:
        return int(self.openings.max())

    @property
    def _longest_rest(self) -> int:
        return int((self.counts - self.openings).max())

    def read(self, forward: Forward, source: Tensor, num_layers: int) -> Tensor:
        """The states of a row from its prompt's last token on.

        Args:
            forward: Of the model.
            source: (B, T) token ids or (B, T, H) states, which it reads.
            num_layers: Of the model.

        Returns:
            (B, 1 + R, H): column j of row i is the state of token openings[i] - 1 + j.
        """
        device, width, rest = source.device, self._longest_prompt, self._longest_rest
        prompts = [_Prompts() for _ in range(num_layers)]
        places = torch.arange(width, device=device)
        causal = places <= places[:, None]
        states = forward(
            source[self.first, :width],
            causal.expand(len(self.first), 1, width, width),
            places.expand(len(self.first), width),
            Cache(layers=list(prompts)),
        )
        last = states[self.prompt, self.openings - 1][:, None]
        if rest == 0:
            return last
        cache = Cache(layers=[_Rows(layer, self.prompt) for layer in prompts])
        steps = torch.arange(rest, device=device)
        # Behind the longest row's end stands its last token again: nothing looks at it.
        columns = (self.openings[:, None] + steps).clamp(max=source.shape[1] - 1)
        read = source[torch.arange(len(source), device=device)[:, None], columns]
        opened = (places < self.openings[:, None])[:, None, None, :]
        own = (steps <= steps[:, None])[None, None]
        shape = (len(source), 1, rest)
        mask = torch.cat([opened.expand(*shape, width), own.expand(*shape, rest)], dim=-1)
        return torch.cat([last, forward(read, mask, columns, cache)], dim=1)


class _Layer(CacheLayerMixin):
    """What transformers asks of a cache's layer, and is not used here."""

    keys: Tensor
    values: Tensor

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys, self.values = key_states, value_states
        self.is_initialized = True

    def get_seq_length(self) -> int:
        return 0

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        raise NotImplementedError("a shared prompt: give the mask")

    def get_max_length(self) -> int:
        return -1

    def reorder_cache(self, beam_idx: Tensor) -> None:
        raise NotImplementedError("a shared prompt: beams are not supported")


class _Prompts(_Layer):
    """Keeps the keys and values of the prompts, (G, heads, P, D), differentiable."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        # Not those of a block that is computed again: the rows' gradients go to the first ones.
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        return key_states, value_states


class _Rows(_Layer):
    """Has row i read behind prompt[i]; keeps nothing."""

    def __init__(self, prompts: _Prompts, prompt: Tensor) -> None:
        super().__init__()
        self._prompts = prompts
        self._prompt = prompt

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        # index_select: unlike an index, its gradient is a plain sum over the rows.
        keys = self._prompts.keys.index_select(0, self._prompt)
        values = self._prompts.values.index_select(0, self._prompt)
        return torch.cat([keys, key_states], dim=2), torch.cat([values, value_states], dim=2)
