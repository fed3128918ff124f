"""Sessions of several turns: ragged contexts, turns of all lengths, and rows that leave."""

import random

from agents.engine import Sampling
from agents.generation.hf import HFEngine
from agents.policy import SearchPolicy
from tests.agents import builds

# Frequent pieces of the random model's text, so that turns end at all lengths.
STOP = ("e", "an", "x")
PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14], [15]]


def sampling(**changes) -> Sampling:
    return builds.sampling(**{"max_tokens": 12, "stop": STOP, "seed": 7, **changes})


class Script:
    """Several turns of a session: ragged contexts, and rows that leave."""

    def __init__(self, policy: SearchPolicy, options: Sampling, group_size: int = 4) -> None:
        self.session = HFEngine(policy).open(PROMPTS, group_size, options)
        rows = len(PROMPTS) * group_size
        self.ids = [list(PROMPTS[row // group_size]) for row in range(rows)]
        self.sampled: list[list[tuple[int, int, float]]] = [[] for _ in range(rows)]
        self.turns: list[dict[int, tuple[int, ...]]] = []

    def play(self, contexts: dict[int, list[int]]) -> None:
        samples = self.session.turn(contexts)
        assert list(samples) and set(samples) == set(contexts)
        for row, sample in samples.items():
            self.ids[row] += contexts[row]
            for token, logprob in zip(sample.ids, sample.logprobs, strict=True):
                self.sampled[row].append((len(self.ids[row]), token, logprob))
                self.ids[row].append(token)
        self.turns.append({row: sample.ids for row, sample in samples.items()})

    def play_all(self, seed: int = 0) -> "Script":
        """Four turns of which some rows see only the first ones."""
        rng = random.Random(seed)
        self.play({row: [] for row in range(len(self.ids))})
        for turn in (1, 2, 3):
            left = [
                row for row in range(len(self.ids)) if row % 5 != turn and row in self.turns[-1]
            ]
            self.play({r: [rng.randrange(1024) for _ in range(rng.randint(1, 9))] for r in left})
        return self
