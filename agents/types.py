"""The nouns of training: Turn, Trajectory, Batch.

Axes: B trajectories, T tokens, K turns. A `Trajectory` is the border of the house: nothing before
it knows an algorithm, nothing after it knows a search engine.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from envs.types import Episode, Step


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the agent, token-exact.

    Attributes:
        prompt_ids: The context that is new since the last turn: the prompt for the first turn,
            afterwards the observation.
        action_ids: The sampled tokens as sampled, the closing tag or end-of-text token included.
        logprobs: Their log-probabilities at sampling time (nats, at the sampling temperature).
        step: What the environment made of them.
    """

    prompt_ids: tuple[int, ...]
    action_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    step: Step

    def __post_init__(self) -> None:
        """Ids and log-probabilities must agree in number."""
        if len(self.action_ids) != len(self.logprobs):
            raise ValueError(
                f"{len(self.action_ids)} action ids but {len(self.logprobs)} log-probabilities"
            )


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One finished episode as tokens.

    Attributes:
        episode: The environment's record.
        turns: One per step of the episode.
        group_id: Shared by the samples of one prompt draw and by nothing else in the run.
    """

    episode: Episode
    turns: tuple[Turn, ...]
    group_id: int

    @property
    def reward(self) -> float:
        """The sum of the turns' rewards."""
        return sum(turn.step.reward for turn in self.turns)

    @property
    def stratum(self) -> int:
        """The number of executed searches (Stratified GRPO's key)."""
        return self.episode.num_searches

    @property
    def num_action_tokens(self) -> int:
        """Sampled tokens over all turns."""
        return sum(len(turn.action_ids) for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Batch:
    """Trajectories as padded tensors; every (B, T) tensor is aligned with `input_ids`.

    The log-probability at position t is that of token t given the tokens before it. Values at
    positions outside `action_mask` are 0 and mean nothing.

    Attributes:
        input_ids: (B, T) int64, right-padded.
        attention_mask: (B, T) bool, False on padding.
        action_mask: (B, T) bool, True exactly where the token was sampled by the agent.
        turn_ids: (B, T) int64, the turn of an action token, -1 elsewhere.
        old_logprobs: (B, T) float, under the policy that sampled.
        rewards: (B, K) float, per turn, 0 after the last turn.
        group_ids: (B,) int64.
        strata: (B,) int64.
        ref_logprobs: (B, T) float under the reference policy, or None.
        values: (B, T) float, the critic's value of the state before an action token, or None.
        penalties: (B, T) float, taken off the reward at each action token, or None.
        corrections: (B, T) float, weight of each action token's loss where the sampler was not
            exactly the policy (agents/correction.py), or None.
    """

    input_ids: Tensor
    attention_mask: Tensor
    action_mask: Tensor
    turn_ids: Tensor
    old_logprobs: Tensor
    rewards: Tensor
    group_ids: Tensor
    strata: Tensor
    ref_logprobs: Tensor | None = None
    values: Tensor | None = None
    penalties: Tensor | None = None
    corrections: Tensor | None = None

    def __post_init__(self) -> None:
        """Check the shape legend."""
        rows, tokens = self.input_ids.shape
        for name in ("attention_mask", "action_mask", "turn_ids", "old_logprobs"):
            self._expect(name, (rows, tokens))
        for name in ("group_ids", "strata"):
            self._expect(name, (rows,))
        for name in ("ref_logprobs", "values", "penalties", "corrections"):
            if getattr(self, name) is not None:
                self._expect(name, (rows, tokens))
        if self.rewards.ndim != 2 or self.rewards.shape[0] != rows:
            raise ValueError(f"rewards: expected ({rows}, K), got {tuple(self.rewards.shape)}")

    def _expect(self, name: str, shape: tuple[int, ...]) -> None:
        actual = tuple(getattr(self, name).shape)
        if actual != shape:
            raise ValueError(f"{name}: expected shape {shape}, got {actual}")

    def __len__(self) -> int:
        """B, the number of trajectories."""
        return self.input_ids.shape[0]

    @property
    def returns(self) -> Tensor:
        """(B,) the undiscounted sum of each trajectory's rewards, less its penalties."""
        return self.rewards.sum(1) - self._penalties.sum(1)

    @property
    def token_rewards(self) -> Tensor:
        """(B, T) each turn's reward on its last action token, less the penalties; 0 off the mask.

        Sums to `returns` in each row whose turns have all at least one action token.
        """
        turns = torch.where(self.action_mask, self.turn_ids, 0)
        columns = torch.arange(turns.shape[1], device=turns.device)
        places = torch.where(self.action_mask, columns, -1)
        last = torch.full_like(self.rewards, -1, dtype=torch.int64)
        last = last.scatter_reduce(1, turns, places, "amax")
        paid = self.rewards.new_zeros(turns.shape)
        paid = paid.scatter_add(1, last.clamp(min=0), torch.where(last >= 0, self.rewards, 0.0))
        return paid - self._penalties

    @property
    def _penalties(self) -> Tensor:
        nothing = torch.zeros_like(self.old_logprobs)
        if self.penalties is None:
            return nothing
        return torch.where(self.action_mask, self.penalties, nothing)

    @property
    def num_turns(self) -> Tensor:
        """(B,) int64, turns with action tokens."""
        turns = torch.where(self.action_mask, self.turn_ids, -1)
        return turns.amax(1) + 1 if turns.shape[1] else turns.sum(1)

    @property
    def lengths(self) -> Tensor:
        """(B,) tokens without padding."""
        return self.attention_mask.sum(1)

    @property
    def openings(self) -> Tensor:
        """(B,) tokens before the first action token; 0 in a row without one."""
        return self.action_mask.int().argmax(1)

    def select(self, rows: Tensor) -> "Batch":
        """The given rows ((N,) int64), padding trimmed to the longest of them."""
        width = int(self.lengths[rows].max()) if len(rows) else 0
        whole = ("rewards", "group_ids", "strata")
        return self._map(lambda name, t: t[rows] if name in whole else t[rows, :width])

    def to(self, device: torch.device) -> "Batch":
        """A copy on another device."""
        return self._map(lambda name, tensor: tensor.to(device))

    def _map(self, change: Callable[[str, Tensor], Tensor]) -> "Batch":
        """A copy with every tensor changed; absent ones stay absent."""
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        return Batch(**{n: change(n, t) for n, t in tensors.items() if t is not None})
