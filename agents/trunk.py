"""States of the frozen blocks below the first adapted one, kept from sampling for training.

They depend on the tokens and on weights that nobody trains. With adapters on the last 10 of 30
blocks an update that takes them from sampling passes forward through 10 blocks instead of 30.

B rows, T tokens, H hidden width.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

PROBE = (1, 2, 3, 4)


class Trunk:
    """The frozen blocks of a decoder; nothing is kept outside of `keeping`."""

    def __init__(self, backbone: PreTrainedModel) -> None:
        self._backbone: Any = backbone
        self._blocks: nn.ModuleList = getattr(backbone, "layers", nn.ModuleList())
        self._above = self._blocks
        self._traces: list[Trace] | None = None
        self._entered: Tensor | None = None
        self._known: dict[tuple[int, ...], list[Tensor]] = {}

    @property
    def depth(self) -> int:
        """Blocks below the first that is trained; 0 if nothing is, or what they read is."""
        trained = [any(p.requires_grad for p in block.parameters()) for block in self._blocks]
        inside = {id(p) for p in self._blocks.parameters()}
        outside = [p for p in self._backbone.parameters() if id(p) not in inside]
        # What stands behind the blocks can be trained; it is not told from what stands before them.
        if not any(trained) or any(p.requires_grad for p in outside):
            return 0
        return trained.index(True)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Within this context the states of what is sampled are kept, and `states` gives them."""
        depth = self.depth
        if depth == 0:
            yield
            return
        self._above = self._blocks[depth:]
        handle = self._blocks[depth].register_forward_pre_hook(self._enter)
        try:
            self._traces = [] if self._can_begin_above() else None
            yield
        finally:
            handle.remove()
            self._traces = self._entered = None
            self._known = {}

    def trace(self) -> "Trace":
        """Of a session that begins."""
        if self._traces is None:
            return Trace(None)
        self._traces.append(Trace(self))
        return self._traces[-1]

    def entered(self) -> Tensor:
        """(B, T, H): what entered the first block above in the last forward pass."""
        assert self._entered is not None
        return self._entered

    def states(self, input_ids: Tensor, counts: Tensor) -> Tensor | None:
        """The states of texts that were sampled.

        Args:
            input_ids: (B, T) int64.
            counts: (B,) int64, how many tokens of each row are asked for.

        Returns:
            (B, max(counts), H), 0 behind a row's count; None unless all rows were sampled.
        """
        if not self._traces or len(counts) == 0:
            return None
        if not self._known:
            texts = [text for trace in self._traces for text in trace.texts]
            self._known = {tuple(text.ids): text.states for text in texts}
        wanted = [
            tuple(row[:n]) for row, n in zip(input_ids.tolist(), counts.tolist(), strict=True)
        ]
        if not all(text in self._known for text in wanted):
            return None
        # Copies: a tensor made in inference mode cannot be kept for a backward pass.
        rows = [torch.cat(self._known[text]) for text in wanted]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True)

    def above(
        self,
        states: Tensor,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """(B, T, H) -> (B, T, H): the last layer's states, from those that `states` gives.

        Mask, positions and cache are those of `SearchPolicy.hidden`.
        """
        self._backbone.layers = self._above
        try:
            hidden: Tensor = self._backbone(
                inputs_embeds=states,
                attention_mask=mask,
                position_ids=positions,
                cache=cache,
                use_cache=False,
            ).last_hidden_state
            return hidden
        finally:
            self._backbone.layers = self._blocks

    def _enter(self, block: nn.Module, args: tuple[Any, ...]) -> None:
        if torch.is_inference_mode_enabled():  # sampling, not training
            self._entered = args[0]
            self._known = {}  # the texts grow

    @torch.inference_mode()
    def _can_begin_above(self) -> bool:
        """Not if the model does more to embeddings than to look them up (Granite scales them)."""
        ids = torch.tensor([PROBE], device=self._backbone.device)
        whole = self._backbone(input_ids=ids, use_cache=False).last_hidden_state
        return torch.equal(self.above(self.entered()), whole)


@dataclass(frozen=True, slots=True)
class _Text:
    """What a row has read, and the (n, H) states of one read after the other."""

    ids: list[int]
    states: list[Tensor]


class Trace:
    """What the rows of one session have read."""

    def __init__(self, trunk: Trunk | None) -> None:
        """Of a trunk that keeps states, or of None: then nothing is kept."""
        self._trunk = trunk
        self.texts: list[_Text] = []

    def open(self, rows: int) -> None:
        """Start with `rows` empty rows."""
        self.texts = [_Text([], []) for _ in range(rows)]

    def repeat(self, copies: int) -> None:
        """Every row becomes `copies` equal rows, side by side; they share the states so far."""
        self.texts = [
            _Text(text.ids[:], text.states[:]) for text in self.texts for _ in range(copies)
        ]

    def read(self, rows: Sequence[int], ids: Tensor, counts: Tensor) -> None:
        """After a forward pass of ids (B, T): `rows[i]` has read the first counts[i] of row i."""
        if self._trunk is None:
            return
        states = self._trunk.entered()
        reads = zip(rows, states, ids.tolist(), counts.tolist(), strict=True)
        for row, new, tokens, count in reads:
            if count:
                self.texts[row].ids.extend(tokens[:count])
                # A copy: a view would keep the padding and the rows that have ended.
                self.texts[row].states.append(new[:count].clone())
