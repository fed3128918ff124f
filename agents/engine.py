"""What a generation engine is: it samples turns for many episodes at once.

A session holds R rows, one per episode; the rows of one group share a prompt. Engines live in
`agents/generation/`, one file each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from retrieval.errors import InputError

from .seeding import Draw, derive


class DivergedError(InputError):
    """The policy's probabilities are not numbers: there is nothing to sample from."""

    def __init__(self) -> None:
        """Say so, and what to do."""
        super().__init__(
            "the policy's probabilities are not numbers: training has diverged; lower optimizer.lr "
            "or go on from an earlier checkpoint"
        )


class EngineError(RuntimeError):
    """An engine outside this process failed, or does not sample from the policy."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. There is no top-k and no top-p: they would change the policy.

    Attributes:
        max_tokens: The most tokens of one turn.
        temperature: Divides the logits; 0 takes the likeliest token (log-probabilities are then
            those at temperature 1).
        stop: A turn ends with the token that completes one of these strings, or with end-of-text.
        seed: The same seed gives the same samples.
        group_ids: One per prompt: the samples of a group depend on the seed and its id, and not on
            which other groups are played beside it. Empty for 0, 1, 2, ...
    """

    max_tokens: int
    temperature: float
    stop: tuple[str, ...]
    seed: int
    group_ids: tuple[int, ...] = ()

    def group_seeds(self, prompts: int) -> list[int]:
        """A seed for each prompt's group."""
        ids = self.group_ids or range(prompts)
        return [derive(self.seed, Draw.GROUP, group) for group in ids]


@dataclass(frozen=True, slots=True)
class Sample:
    """One sampled turn: the token ids as sampled, and their log-probabilities (nats)."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]


# Row, its turn -> called as soon as the turn is complete.
Ended = Callable[[int, Sample], object]


class Session(Protocol):
    """Episodes being played."""

    def turn(
        self, contexts: Mapping[int, Sequence[int]], ended: Ended = lambda row, sample: None
    ) -> dict[int, Sample]:
        """Sample one turn for each row named.

        Args:
            contexts: Row -> token ids to read first (the observation; empty on the first turn).
                A row left out has finished and does not come back.
            ended: Told of turns while others are still being sampled, in the calling thread; of a
                row once or not at all. What is slow outside can begin then.

        Returns:
            Row -> its turn.

        Raises:
            DivergedError: The policy gives no probabilities.
            EngineError: The engine failed.
        """
        ...


class Engine(Protocol):
    """A generation engine.

    Attributes:
        importance_cap: None if its log-probabilities are those of the policy's own forward pass. If
            it computes another function of the same weights, the cap of the importance weights
            with which training corrects for that (agents/correction.py).
    """

    importance_cap: float | None

    def open(
        self, prompts: Sequence[Sequence[int]], group_size: int, sampling: Sampling
    ) -> Session:
        """Start G = `group_size` episodes per prompt; row p * G + g is sample g of prompt p."""
        ...
