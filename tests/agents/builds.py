"""Real parts at the smallest size, and a second generation engine whose turns are written down."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch

from agents.batching import to_batch
from agents.critic import Critic
from agents.engine import Ended, Engine, Sample, Sampling, Session
from agents.models import load_base
from agents.policy import LoraOptions, SearchPolicy
from agents.prompts import Framing, build_framing
from agents.rollout import Rollout
from agents.types import Batch, Trajectory, Turn
from envs.actions import parse
from envs.datasets import atlas
from envs.limits import EnvLimits
from envs.search_env import SearchEnv
from envs.types import Dataset, Episode, Question, Step, StopReason
from retrieval.cache import CachedRetriever
from retrieval.corpus import Corpus
from retrieval.retrievers import bm25s

STOP = ("</search>", "</answer>")
MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def build_policy(
    rank: int = 4,
    alpha: int | None = None,
    last_layers: int = 0,
    modules: tuple[str, ...] = MODULES,
    dtype: torch.dtype = torch.float32,
    b_std: float = 0.0,
) -> SearchPolicy:
    """The tiny model with its own adapters; their B is drawn with `b_std` (0: as peft makes it)."""
    base, tokenizer = load_base("tiny", dtype, torch.device("cpu"))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        policy = SearchPolicy.with_lora(
            base, tokenizer, LoraOptions(rank, alpha or 2 * rank, modules, last_layers)
        )
        randomise(policy, b_std)
    return policy


def randomise(policy: SearchPolicy, b_std: float, seed: int = 2) -> None:
    """Draw every LoRA B anew."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in policy.model.named_parameters():
        if "lora_B" in name and b_std:
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.data.copy_(noise * b_std)


@cache
def world() -> Dataset:
    """A small atlas."""
    return atlas.build(atlas.Config(people=20, limit=40))


@cache
def search_engine() -> CachedRetriever:
    """BM25 over the small atlas."""
    return CachedRetriever(bm25s.build(bm25s.Config(), Corpus.of(world().passages or ())))


def build_rollout(
    engine: Engine,
    policy: SearchPolicy,
    *,
    framing: str = "inline",
    max_episodes: int = 64,
    retriever: CachedRetriever | None = None,
    **limits: int,
) -> Rollout:
    """A rollout over the small atlas."""
    retriever = retriever or search_engine()
    bounds = EnvLimits(
        **{"top_k": 2, "max_turns": 3, "max_observation_tokens": 80, **limits},
        count_tokens=lambda text: len(policy.encode(text)),
    )
    return Rollout(
        engine=engine,
        framing=build_framing(policy.tokenizer, "minimal", framing),
        make_env=lambda: SearchEnv(
            questions=world().questions,
            retriever=retriever,
            reward={"exact_match": 1.0},
            limits=bounds,
        ),
        retriever=retriever,
        decode=policy.decode,
        top_k=bounds.top_k,
        max_episodes=max_episodes,
    )


class ScriptedEngine:
    """An engine that knows no model: `write(row, turn)` gives the token ids of a turn.

    It keeps what it was given to read and what it wrote, and draws log-probabilities of its own.
    With `tells` it tells of every turn as it ends.
    """

    importance_cap = None

    def __init__(self, write: Callable[[int, int], Sequence[int]], tells: bool = False) -> None:
        self.write = write
        self.tells = tells
        self.sessions: list[ScriptedSession] = []

    def open(
        self, prompts: Sequence[Sequence[int]], group_size: int, sampling: Sampling
    ) -> "ScriptedSession":
        rows = [tuple(prompt) for prompt in prompts for _ in range(group_size)]
        offset = sum(len(session.read) for session in self.sessions)
        self.sessions.append(ScriptedSession(self, rows, offset))
        return self.sessions[-1]

    def episodes(self) -> list[tuple[list[tuple[int, ...]], list[Sample]]]:
        """What every episode read before each turn, and what was written in it."""
        return [
            pair
            for session in self.sessions
            for pair in zip(session.read, session.written, strict=True)
        ]


class ScriptedSession:
    def __init__(
        self,
        engine: ScriptedEngine,
        prompts: Sequence[tuple[int, ...]],
        offset: int,
    ) -> None:
        self.read: list[list[tuple[int, ...]]] = [[prompt] for prompt in prompts]
        self.written: list[list[Sample]] = [[] for _ in prompts]
        self._engine = engine
        self._offset = offset
        self._random = random.Random(offset)

    def turn(
        self, contexts: Mapping[int, Sequence[int]], ended: Ended = lambda row, sample: None
    ) -> dict[int, Sample]:
        result = {}
        for row, context in contexts.items():
            turn = len(self.written[row])
            if turn:
                self.read[row].append(tuple(context))
            ids = tuple(self._engine.write(self._offset + row, turn))
            logprobs = tuple(-10 * self._random.random() for _ in ids)
            result[row] = Sample(ids, logprobs)
            self.written[row].append(result[row])
            if self._engine.tells:
                ended(row, result[row])
        return result


class Recorder:
    """An engine that passes everything on to another one and keeps it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.importance_cap = engine.importance_cap
        self.read: list[list[tuple[int, ...]]] = []
        self.written: list[list[Sample]] = []

    def open(
        self, prompts: Sequence[Sequence[int]], group_size: int, sampling: Sampling
    ) -> "RecordedSession":
        offset = len(self.read)
        for prompt in prompts:
            for _ in range(group_size):
                self.read.append([tuple(prompt)])
                self.written.append([])
        return RecordedSession(self, self.engine.open(prompts, group_size, sampling), offset)

    def episodes(self) -> list[tuple[list[tuple[int, ...]], list[Sample]]]:
        """What every episode read before each turn, and what was sampled in it."""
        return list(zip(self.read, self.written, strict=True))


class RecordedSession:
    def __init__(self, recorder: Recorder, session: Session, offset: int) -> None:
        self._recorder = recorder
        self._session = session
        self._offset = offset

    def turn(
        self, contexts: Mapping[int, Sequence[int]], ended: Ended = lambda row, sample: None
    ) -> dict[int, Sample]:
        for row, context in contexts.items():
            if context:
                self._recorder.read[self._offset + row].append(tuple(context))
        samples = self._session.turn(contexts, ended)
        for row, sample in samples.items():
            self._recorder.written[self._offset + row].append(sample)
        return samples


def trajectory(
    *turns: tuple[Sequence[int], Sequence[int]],
    rewards: Sequence[float] = (),
    group_id: int = 0,
    logprobs: Sequence[Sequence[float]] = (),
    searches: int = 0,
) -> Trajectory:
    """A trajectory of (context ids, action ids) turns; by default every log-probability is -1."""
    question = Question("q", "Which?", ("yes",))
    made = []
    for index, (context, action) in enumerate(turns):
        text, seen = ("<search>x</search>", "<information/>") if index < searches else ("hm", "")
        reward = rewards[index] if index < len(rewards) else 0.0
        step = Step(parse(text), (), seen, reward)
        values = logprobs[index] if index < len(logprobs) else [-1.0] * len(action)
        made.append(Turn(tuple(context), tuple(action), tuple(values), step))
    steps = tuple(turn.step for turn in made)
    return Trajectory(Episode(question, steps, StopReason.TURN_LIMIT), tuple(made), group_id)


def random_trajectories(
    count: int, group_size: int = 4, seed: int = 0, vocabulary: int = 1024, longest: int = 9
) -> list[Trajectory]:
    """Ragged trajectories of 1 to 4 turns; the last turn has a reward of 0 or 1."""
    rng = random.Random(seed)

    def ids(low: int, high: int) -> list[int]:
        return [rng.randrange(vocabulary) for _ in range(rng.randint(low, high))]

    result = []
    for index in range(count):
        turns = [(ids(1, longest), ids(1, longest)) for _ in range(rng.randint(1, 4))]
        rewards = [0.0] * (len(turns) - 1) + [float(rng.random() < 0.5)]
        searches = rng.randint(0, len(turns) - 1)
        result.append(
            trajectory(
                *turns, rewards=rewards, group_id=100 + index // group_size, searches=searches
            )
        )
    return result


def sampling(**changes: Any) -> Sampling:
    """Short turns at temperature 1, ended by the tags."""
    return replace(Sampling(max_tokens=10, temperature=1.0, stop=STOP, seed=3), **changes)


def with_framing(rollout: Rollout, framing: Framing) -> Rollout:
    """The same rollout, prompts aside."""
    return replace(rollout, framing=framing)


def double(batch: Batch, seed: int = 0) -> Batch:
    """The batch in float64, with random old and reference log-probabilities on its actions."""
    generator = torch.Generator().manual_seed(seed)
    mask = batch.action_mask
    noise = torch.rand(2, *mask.shape, generator=generator, dtype=torch.float64)
    old, reference = -3 * noise * mask
    return replace(batch, old_logprobs=old, ref_logprobs=reference, rewards=batch.rewards.double())


def random_batch(seed: int = 0, rows: int = 12) -> Batch:
    """A ragged float64 batch with old and reference log-probabilities and values on its actions."""
    batch = double(to_batch(random_trajectories(rows, seed=seed), 1), seed)
    generator = torch.Generator().manual_seed(seed + 1)
    values = torch.rand(batch.old_logprobs.shape, generator=generator, dtype=torch.float64)
    return replace(batch, values=values * batch.action_mask)


def build_critic(policy: SearchPolicy, rank: int = 4, last_layers: int = 0) -> Critic:
    """A critic whose values are not all 0."""
    critic = Critic(policy, LoraOptions(rank, 2 * rank, ("q_proj", "v_proj"), last_layers))
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in critic.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return critic
