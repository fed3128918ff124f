"""SearchPolicy: a causal language model with LoRA adapters.

B rows, T tokens, N action tokens, H hidden width, V vocabulary. Logits are formed only at action
positions and only a chunk of tokens at a time, so that a (B, T, V) tensor never exists.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from peft import get_peft_model
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache
from transformers.modeling_layers import GradientCheckpointingLayer

from retrieval.errors import InputError

from .adapters import LoraOptions, lora_config
from .compatibility import check_config, check_logits
from .head import chosen_logprobs, recomputed_logprobs
from .kv_cache import RowCache
from .models import end_ids
from .shared_prompts import Layout, prompts_of
from .trunk import Trunk

POLICY = "default"  # peft's name of the first adapter
LOGIT_CHUNK = 512  # tokens whose logits exist at the same time


class SearchPolicy:
    """Log-probabilities of action tokens, and the pieces a generation engine needs."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model = model  # a PeftModel, or a bare base model
        self.tokenizer = tokenizer
        self.causal: PreTrainedModel = getattr(model, "get_base_model", lambda: model)()
        self._backbone = getattr(self.causal, self.causal.base_model_prefix)
        self.trunk = Trunk(self._backbone)
        self._head = self.causal.get_output_embeddings()
        plain = type(self._head) is torch.nn.Linear  # and no adapter around one
        self._head_is_frozen = plain and not self._head.weight.requires_grad
        self._pieces: dict[int, str] = {}
        self._active = POLICY
        self.shares_prompts = True  # among the rows of a forward pass
        self._trainable = [p for p in model.parameters() if p.requires_grad]
        self._learnt = list(self._trainable)  # and what further adapters bring
        config = self.causal.config.get_text_config()
        self.num_layers: int = config.num_hidden_layers
        self.pad_id: int = tokenizer.pad_token_id or 0
        self.end_ids = end_ids(self.causal, tokenizer)
        check_config(config)
        self.max_positions: int = config.max_position_embeddings
        self._check_logits()

    @classmethod
    def with_lora(
        cls, base: PreTrainedModel, tokenizer: Any, options: LoraOptions
    ) -> "SearchPolicy":
        """Add fresh adapters (their B is 0: the policy starts as the base model).

        Raises:
            InputError: Options that do not fit the model, or a model that is not supported.
        """
        return cls(get_peft_model(base, lora_config(base, options)), tokenizer)

    def add_adapter(self, name: str, options: LoraOptions) -> None:
        """Add fresh adapters beside the policy's own, which stay the active ones.

        Raises:
            InputError: Options that do not fit the model.
        """
        self.model.add_adapter(name, lora_config(self.causal, options))
        self._learnt = [*self._trainable, *self.adapter_parameters(name)]
        self._activate(POLICY)

    def adapter(self, name: str) -> AbstractContextManager[None]:
        """Within this context another adapter is the active one."""
        return _ActiveAdapter(self, name)

    def _activate(self, name: str) -> None:
        self.model.set_adapter(name)
        self._active = name
        # peft freezes the adapters that are not active, and a frozen weight gets no gradient from a
        # backward pass that comes after its forward pass.
        for parameter in self._learnt:
            parameter.requires_grad_(True)

    def recompute_activations(self) -> None:
        """Keep each block's input alone for the backward pass; compute the rest there again.

        The gradient stays the same (gradient checkpointing, arXiv:1604.06174).

        Raises:
            InputError: A model whose blocks cannot do it.
        """

        def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
            # The backward pass may come after the context of the adapter that was active.
            return nullcontext(), self.adapter(self._active)

        try:
            # Nothing in a block is random: there is no generator's state to keep.
            self.causal.activation_checkpointing_enable(
                {"use_reentrant": False, "preserve_rng_state": False, "context_fn": contexts}
            )
        except ValueError as error:
            raise InputError(f"model.gradient_checkpointing: {error}; set it to false") from error
        for module in self.causal.modules():
            if isinstance(module, GradientCheckpointingLayer):
                module.training = True  # of the block alone: what is inside it stays as it is
                module._can_checkpoint_with_cache = True  # agents/shared_prompts.py: written once

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._head.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Of the arithmetic: the output layer's, which no quantisation touches."""
        return self._head.weight.dtype

    @property
    def hidden_size(self) -> int:
        """H, the width of the states."""
        return self._head.weight.shape[1]

    def trainable_parameters(self) -> list[torch.nn.Parameter]:
        """The policy's own weights that are trained, in a fixed order."""
        return list(self._trainable)

    def adapter_parameters(self, name: str) -> list[torch.nn.Parameter]:
        """The weights of one adapter, in a fixed order."""
        return [p for key, p in self.model.named_parameters() if f".{name}." in key]

    def base_state(self) -> dict[str, Tensor]:
        """The base model's own parameters, under their names without adapters."""
        return {
            name.replace(".base_layer", ""): parameter
            for name, parameter in self.causal.named_parameters()
            if "lora_" not in name
        }

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Within this context the adapter is off: the policy is the base model."""
        with self.model.disable_adapter():
            yield

    def piece(self, token: int) -> str:
        """The text of one token (enough to find an ASCII tag in a concatenation of pieces)."""
        if token not in self._pieces:
            self._pieces[token] = self.tokenizer.decode([token])
        return self._pieces[token]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a turn, without special tokens."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=True)

    def count_tokens(self, text: str) -> int:
        """The length of a text in the model's tokens."""
        return len(self.encode(text))

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text; special tokens are neither added nor recognised."""
        return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)

    def hidden(
        self,
        input_ids: Tensor,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """The last layer's states (B, T, H).

        Args:
            input_ids: (B, T) int64. Without a mask attention is plainly causal: padding on the
                right changes nothing to its left.
            mask: (B, 1, T, W) bool, True where a token may look.
            positions: (B, T) int64.
            cache: Keys and values of earlier tokens; filled by this call.
        """
        return self._backbone(
            input_ids=input_ids,
            attention_mask=mask,
            position_ids=positions,
            cache=cache,
            use_cache=False,  # none of its own
        ).last_hidden_state

    def states_before(self, input_ids: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """(N, H): the last layer's states before the tokens (rows[i], columns[i]).

        Frozen blocks are left out where sampling has kept their states (agents/trunk.py), and a
        prompt is read once for its rows (agents/shared_prompts.py).

        Args:
            input_ids: (B, T) int64, right-padded.
            rows: (N,) int64.
            columns: (N,) int64, above 0: nothing stands before a row's first token.
        """
        if not bool((columns > 0).all()):
            raise ValueError("action_mask: the first token of a row cannot be an action")
        nothing = columns.new_zeros(len(input_ids))
        counts = nothing.scatter_reduce(0, rows, columns, "amax")
        openings = nothing.scatter_reduce(0, rows, columns, "amin", include_self=False)
        kept = self.trunk.states(input_ids, counts)
        source, forward = (input_ids, self.hidden) if kept is None else (kept, self.trunk.above)
        if self.shares_prompts:
            layout = Layout.of(prompts_of(input_ids, openings), counts)
            if layout.is_worth_it:
                states = layout.read(forward, source, self.num_layers)
                return states[rows, columns - openings[rows]]
        return forward(source, None, None, None)[rows, columns - 1]

    def logits(self, hidden: Tensor) -> Tensor:
        """(N, H) -> (N, V)."""
        return self._head(hidden)

    def logprobs(
        self,
        input_ids: Tensor,
        action_mask: Tensor,
        temperature: float,
        entropy_gradient: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities and entropies of action tokens.

        Args:
            input_ids: (B, T) int64, right-padded.
            action_mask: (B, T) bool; the first token of a row cannot be an action.
            temperature: Divides the logits, as at sampling; > 0.
            entropy_gradient: Whether the entropies are differentiable too.

        Returns:
            (B, T) log-probabilities in nats, differentiable, and (B, T) entropies in nats; both
            float32 and 0 off the mask.
        """
        rows, columns = action_mask.nonzero(as_tuple=True)
        states = self.states_before(input_ids, rows, columns)
        targets = input_ids[rows, columns]
        pairs = zip(states.split(LOGIT_CHUNK), targets.split(LOGIT_CHUNK), strict=True)
        if self._head_is_frozen and not entropy_gradient:
            parts = [chosen_logprobs(s, self._head, t, temperature) for s, t in pairs]
        else:
            parts = [
                recomputed_logprobs(s, self._head, t, temperature, entropy_gradient)
                for s, t in pairs
            ]
        blank = torch.zeros(input_ids.shape, device=input_ids.device)
        if not parts:
            return blank, blank
        chosen, entropy = (torch.cat(column) for column in zip(*parts, strict=True))
        return (
            blank.index_put((rows, columns), chosen),
            blank.index_put((rows, columns), entropy),
        )

    @torch.no_grad()
    def _check_logits(self) -> None:
        probe = torch.tensor([[1, 2, 3, 4]], device=self.device)
        whole = self.causal(input_ids=probe).logits[0]
        plain, cached = self.hidden(probe)[0], self._hidden_in_two_reads(probe)[0]
        attention = self.causal.config._attn_implementation
        check_logits(whole, self.logits(plain), self.logits(cached), attention)

    def _hidden_in_two_reads(self, ids: Tensor) -> Tensor:
        """The states of one row as generation computes them: with a cache, in two reads."""
        cache = RowCache(self.num_layers, 1, self.device)
        states = []
        for part in ids.split(3, dim=1):
            count = torch.tensor([part.shape[1]], device=self.device)
            positions, mask = cache.begin([0], count)
            states.append(self.hidden(part, mask, positions, cache))
            cache.advance(count)
        return torch.cat(states, dim=1)


class _ActiveAdapter:
    """A context that can be entered again, as every backward pass through a block does."""

    def __init__(self, policy: SearchPolicy, name: str) -> None:
        self._policy = policy
        self._name = name

    def __enter__(self) -> None:
        self._before = self._policy._active
        if self._name != self._before:
            self._policy._activate(self._name)

    def __exit__(self, *error: object) -> None:
        if self._before != self._name:
            self._policy._activate(self._before)
