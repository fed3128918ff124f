"""The policy's own forward pass with one key-value cache kept over all turns of an episode.

What all prompts begin with is read once, the rest of a prompt once per group, an observation once,
nothing twice; rows that have ended their turn or their episode leave the batch. Sampling and
training run the same weights, adapter included, so the log-probabilities taken here are those of
the policy that is trained.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import torch
from torch import Tensor

from retrieval.errors import InputError

from ..drawing import inverse_cdf
from ..engine import Ended, Engine, Sample, Sampling
from ..kv_cache import RowCache
from ..policy import SearchPolicy
from ..trunk import Trace
from ..turn_end import TurnEnd

READ_TOKENS = 2048  # tokens read in one forward pass, padding included: bounds activations
COMPACT_SHARE = 0.125  # finished rows make way when they are this share of the forward pass


@dataclass(frozen=True, slots=True)
class Config:
    """Options of this engine; those of every engine are `EngineOptions`.

    Attributes:
        keep_states: Whether training takes the states of the frozen blocks below the first adapted
            one from sampling. Memory: episodes of a step x tokens x hidden width.
    """

    keep_states: bool = True


def build(config: Config, policy: SearchPolicy) -> Engine:
    """The engine over a policy."""
    return HFEngine(policy, config.keep_states)


class HFEngine:
    """Samples from a `SearchPolicy` in this process."""

    importance_cap: float | None = None  # the same weights in the same arithmetic

    def __init__(self, policy: SearchPolicy, keep_states: bool = True) -> None:
        self.policy = policy
        self._keep_states = keep_states

    @torch.inference_mode()
    def open(
        self, prompts: Sequence[Sequence[int]], group_size: int, sampling: Sampling
    ) -> "HFSession":
        """Read every prompt once and make `group_size` rows of each."""
        trace = self.policy.trunk.trace() if self._keep_states else Trace(None)
        return HFSession(self.policy, trace, prompts, group_size, sampling)


class HFSession:
    """R episodes over one cache, freed with the session.

    Cache row i belongs to episode `self._owners[i]`.
    """

    def __init__(
        self,
        policy: SearchPolicy,
        trace: Trace,
        prompts: Sequence[Sequence[int]],
        group_size: int,
        sampling: Sampling,
    ) -> None:
        self._policy = policy
        self._trace = trace
        self._sampling = sampling
        self._group_size = group_size
        seeds = sampling.group_seeds(len(prompts))
        self._groups = [torch.Generator().manual_seed(seed) for seed in seeds]
        self._owners: list[int] = []
        hidden = self._read_prompts([list(prompt) for prompt in prompts])
        self._repeat(group_size)
        self._hidden = hidden.repeat_interleave(group_size, dim=0)
        self._unread: dict[int, list[int]] = {row: [] for row in self._owners}

    @torch.inference_mode()
    def turn(
        self, contexts: Mapping[int, Sequence[int]], ended: Ended = lambda row, sample: None
    ) -> dict[int, Sample]:
        """Read each row's context, then sample until its turn ends."""
        self._keep(contexts)
        texts = [self._unread[owner] + list(contexts[owner]) for owner in self._owners]
        if any(texts):
            self._hidden = self._read(texts)
        return self._sample(ended)

    def _keep(self, contexts: Mapping[int, Sequence[int]]) -> None:
        kept = self._gather(lambda owner: owner in contexts, len(self._owners))
        if kept != len(contexts):
            raise ValueError("turn: a context for a row that had left the batch")
        self._cache.truncate(kept)
        self._hidden = self._hidden[:kept]
        self._owners = self._owners[:kept]

    def _gather(self, wanted: Callable[[int], bool], active: int) -> int:
        """Move the active rows that are not wanted behind the others; how many are wanted."""
        owners = self._owners
        count = sum(map(wanted, owners[:active]))
        holes = [slot for slot in range(count) if not wanted(owners[slot])]
        movers = [slot for slot in range(count, active) if wanted(owners[slot])]
        if holes:
            self._cache.swap(holes, movers)
            self._hidden[holes + movers] = self._hidden[movers + holes]
        for hole, mover in zip(holes, movers, strict=True):
            owners[hole], owners[mover] = owners[mover], owners[hole]
        return count

    def _read_prompts(self, prompts: list[list[int]]) -> Tensor:
        """Open the cache with a row per prompt; the (rows, hidden) state after each's last token.

        What all begin with, such as an instruction, is read once.
        """
        columns = zip(*prompts, strict=False)
        shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
        shared = min(shared, min(map(len, prompts)) - 1)  # each row has a token of its own to read
        if len(prompts) > 1 and shared > 0:
            self._open(1)
            self._read([prompts[0][:shared]])
            self._repeat(len(prompts))
            prompts = [prompt[shared:] for prompt in prompts]
        else:
            self._open(len(prompts))
        return self._read(prompts)

    def _open(self, rows: int) -> None:
        self._cache = RowCache(self._policy.num_layers, rows, self._policy.device)
        self._trace.open(rows)
        self._owners = list(range(rows))

    def _repeat(self, copies: int) -> None:
        self._cache.repeat(copies)
        self._trace.repeat(copies)
        self._owners = list(range(copies * len(self._owners)))

    def _read(self, texts: list[list[int]]) -> Tensor:
        """Feed new tokens to rows 0 .. len(texts)-1; the (rows, hidden) state after each's last.

        Texts of similar length go together, for less padding.
        """
        order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
        states: list[Tensor] = []
        rest = order
        while rest:
            rows = rest[: max(1, READ_TOKENS // max(len(texts[rest[0]]), 1))]
            states.append(self._read_rows([texts[row] for row in rows], rows))
            rest = rest[len(rows) :]
        return torch.cat(states)[torch.tensor(order, device=self._policy.device).argsort()]

    def _read_rows(self, texts: list[list[int]], rows: list[int]) -> Tensor:
        device = self._policy.device
        counts = torch.tensor([len(text) for text in texts], device=device)
        if int(counts.min()) == 0:
            raise ValueError("a row was given nothing to read")
        width = int(counts.max())
        ids = torch.tensor([text + [0] * (width - len(text)) for text in texts], device=device)
        hidden = self._forward(ids, counts, rows)
        self._advance(ids, counts, rows)
        return hidden[torch.arange(len(texts), device=device), counts - 1]

    def _sample(self, ended: Ended) -> dict[int, Sample]:
        """Decode all rows; those whose turn has ended move behind the active ones."""
        shape = (self._group_size, self._sampling.max_tokens)
        draws = torch.cat(
            [torch.rand(shape, dtype=torch.float64, generator=group) for group in self._groups]
        )
        turns = {owner: _TurnSoFar(self._policy, self._sampling) for owner in self._owners}
        active = len(self._owners)
        for step in range(self._sampling.max_tokens):
            owners = self._owners[:active]
            ids, logprobs = self._draw(self._hidden[:active], draws[owners, step])
            for owner, token, logprob in zip(owners, ids, logprobs, strict=True):
                if not turns[owner].ended:
                    turns[owner].add(token, logprob)
                    if turns[owner].ended:
                        ended(owner, turns[owner].sample())
            active = self._compact(active, turns)
            if active == 0:
                break
            # Rows that have ended but not yet made way re-read their last token; it is not
            # advanced.
            tokens = [[turns[owner].ids[-1]] for owner in self._owners[:active]]
            self._decode(tokens, [not turns[owner].ended for owner in self._owners[:active]])
        self._unread = {owner: [turn.ids[-1]] for owner, turn in turns.items()} | {
            owner: [] for owner in self._unread if owner not in turns
        }
        return {owner: turn.sample() for owner, turn in turns.items()}

    def _decode(self, tokens: list[list[int]], alive: list[bool]) -> None:
        device = self._policy.device
        counts = torch.tensor(alive, dtype=torch.int64, device=device)
        ids = torch.tensor(tokens, device=device)
        rows = range(len(tokens))
        hidden = self._forward(ids, torch.ones_like(counts), rows)
        self._advance(ids, counts, rows)
        self._hidden[: len(tokens)] = hidden[:, 0]

    def _forward(self, ids: Tensor, counts: Tensor, rows: Sequence[int]) -> Tensor:
        """The states (rows, n, hidden) of new tokens, of which row rows[i] has counts[i]."""
        positions, mask = self._cache.begin(rows, counts)
        if mask.shape[-1] > self._policy.max_positions:
            raise InputError(
                f"an episode outgrew the model's {self._policy.max_positions} positions: lower "
                "env.max_turns, env.max_observation_tokens or env.max_context_tokens"
            )
        return self._policy.hidden(ids, mask, positions, self._cache)

    def _advance(self, ids: Tensor, counts: Tensor, rows: Sequence[int]) -> None:
        """Let the first counts[i] of the new tokens of rows[i] count."""
        self._cache.advance(counts)
        self._trace.read([self._owners[row] for row in rows], ids, counts)

    def _draw(self, hidden: Tensor, uniform: Tensor) -> tuple[list[int], list[float]]:
        """One token per row by inverse CDF: a row's draw does not depend on its neighbours."""
        logits = self._policy.logits(hidden).float()
        if self._sampling.temperature > 0:
            if self._sampling.temperature != 1:
                logits = logits / self._sampling.temperature
            logprobs = logits.log_softmax(-1)
            ids = inverse_cdf(logprobs.exp(), uniform.to(logprobs.device))
        else:
            logprobs = logits.log_softmax(-1)
            ids = logits.argmax(-1)
        return ids.tolist(), logprobs.gather(1, ids[:, None])[:, 0].tolist()

    def _compact(self, active: int, turns: dict[int, "_TurnSoFar"]) -> int:
        """Let ended rows make way once they are many; the new number of active rows."""
        ended = sum(turns[owner].ended for owner in self._owners[:active])
        if ended < active and ended < COMPACT_SHARE * active:
            return active
        return self._gather(lambda owner: not turns[owner].ended, active)


class _TurnSoFar:
    """A turn being sampled."""

    def __init__(self, policy: SearchPolicy, sampling: Sampling) -> None:
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.ended = False
        self._end = TurnEnd(policy, sampling)

    def add(self, token: int, logprob: float) -> None:
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.ended = self._end.reached(token)

    def sample(self) -> Sample:
        """The turn so far."""
        return Sample(tuple(self.ids), tuple(self.logprobs))
