"""A fixed amount of work: questions of the atlas world, played with turns of a fixed length.

Whatever the agent samples, the environment is given the expert's turn in its place: the
observations are those that the expert's queries really bring, and the same for every side.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium
import torch
from torch import Tensor

from agents import bounds
from agents.prompts import Framing, build_framing
from agents.types import Trajectory
from envs.datasets import atlas
from envs.registration import make_env
from envs.search_env import SearchEnv
from envs.types import Dataset, Episode, Question
from retrieval.cache import CachedRetriever
from retrieval.corpus import Corpus
from retrieval.errors import InputError
from retrieval.retrievers import bm25s

MOST_TURNS = 5  # atlas asks for at most 4 hops: the expert searches 4 times and answers


@dataclass(frozen=True, slots=True)
class Shape:
    """How much is played.

    Attributes:
        questions: Questions of a rollout batch.
        group_size: Episodes of each.
        turns: Turns of an episode; after each but the last an observation is read.
        tokens: Sampled tokens of a turn.
        top_k: Passages of an observation.
        template: Of the prompt (agents/prompts.py).
        role: Whose message holds the instruction.
    """

    questions: int
    group_size: int
    turns: int
    tokens: int
    top_k: int = 2
    template: str = "minimal"
    role: str = "system"

    def __post_init__(self) -> None:
        bounds.at_least(self, 1, "questions", "turns", "tokens", "top_k")
        bounds.at_least(self, 2, "group_size")  # GRPO compares the episodes of a question

    @property
    def episodes(self) -> int:
        """Episodes of a rollout batch."""
        return self.questions * self.group_size


MULTI_TURN = Shape(questions=8, group_size=8, turns=3, tokens=32)
# Search-R1's instruction: prompts of 152 to 156 tokens.
SINGLE_TURN = Shape(4, 8, turns=1, tokens=24, template="search_r1", role="user")


class Scripted(gymnasium.ActionWrapper[str, str, str]):
    """A SearchEnv that plays the expert's turns, whatever it is told."""

    def __init__(self, env: SearchEnv, turns: Mapping[str, Sequence[str]]) -> None:
        """Keep the turns.

        Args:
            env: What is played.
            turns: Question id -> the texts of its turns.
        """
        super().__init__(env)
        self._turns = turns

    @property
    def episode(self) -> Episode:
        """As SearchEnv's."""
        episode: Episode = self.unwrapped.episode
        return episode

    def action(self, action: str) -> str:
        """The expert's turn in place of the agent's."""
        return self._turns[self.episode.question.id][len(self.episode.steps)]


@dataclass(frozen=True, slots=True)
class Task:
    """The work, in words and in tokens; sequences are parallel to `questions`.

    Attributes:
        shape: How much.
        world: Where the questions are from.
        retriever: Over the world's passages.
        framing: Words -> token ids.
        questions: What is asked.
        turns: Question id -> the expert's turns.
        prompts: Token ids of each prompt.
        observations: Of each question, what is read after each turn but the last.
        observation_ids: The same as token ids, framed.
    """

    shape: Shape
    world: Dataset
    retriever: CachedRetriever
    framing: Framing
    questions: Sequence[Question]
    turns: Mapping[str, Sequence[str]]
    prompts: Sequence[tuple[int, ...]]
    observations: Sequence[Sequence[str]]
    observation_ids: Sequence[Sequence[tuple[int, ...]]]

    def make_env(self) -> Scripted:
        """An environment that plays the script."""
        return Scripted(_env(self.world, self.retriever, self.shape), self.turns)

    def messages(self, index: int) -> list[dict[str, str]]:
        """The conversation that a question's first turn answers."""
        return [asdict(message) for message in self.framing.messages(self.questions[index])]

    def lengths(self) -> list[int]:
        """Tokens of an episode of each question, prompt included."""
        sampled = self.shape.turns * self.shape.tokens
        return [
            len(prompt) + sum(map(len, read)) + sampled
            for prompt, read in zip(self.prompts, self.observation_ids, strict=True)
        ]

    @property
    def generated_tokens(self) -> int:
        """Tokens sampled for a rollout batch."""
        return self.shape.episodes * self.shape.turns * self.shape.tokens

    @property
    def trained_tokens(self) -> int:
        """Tokens of a rollout batch without padding."""
        return self.shape.group_size * sum(self.lengths())

    @property
    def read_tokens(self) -> int:
        """Tokens read and not sampled: each question's prompt once, observations in all episodes.

        What all prompts begin with is counted for each question, though the engine reads it once.
        """
        observed = sum(len(ids) for read in self.observation_ids for ids in read)
        return sum(map(len, self.prompts)) + self.shape.group_size * observed

    @property
    def passed_tokens(self) -> int:
        """Tokens of an update that passes a prompt once for its rows (agents/shared_prompts.py)."""
        return self.read_tokens + self.generated_tokens

    @property
    def observation_tokens(self) -> float:
        """The mean length of an observation; 0 where there is none."""
        lengths = [len(ids) for read in self.observation_ids for ids in read]
        return sum(lengths) / max(len(lengths), 1)

    def check(self, index: int, completion: Sequence[int]) -> None:
        """Whether an episode is the work agreed on.

        Args:
            index: Of its question.
            completion: All its tokens after the prompt.

        Raises:
            RuntimeError: It samples another number of tokens, or reads something else.
        """
        tokens, read = self.shape.tokens, self.observation_ids[index]
        start = tokens
        for number, ids in enumerate(read, 1):
            if tuple(completion[start : start + len(ids)]) != ids:
                raise RuntimeError(f"question {index}: another observation after turn {number}")
            start += len(ids) + tokens
        if len(completion) != start:
            raise RuntimeError(f"question {index}: {len(completion)} tokens and not {start}")


def build_task(shape: Shape, tokenizer: Any) -> Task:
    """The work of a shape in the tokens of a model.

    Raises:
        InputError: More turns than the expert can fill, or more questions than there are.
    """
    if shape.turns > MOST_TURNS:
        raise InputError(f"turns is {shape.turns}; the expert has at most {MOST_TURNS}")
    world = atlas.build(atlas.Config(hops=(min(shape.turns, MOST_TURNS - 1),)))
    assert world.demonstrate is not None and world.passages is not None
    retriever = CachedRetriever(bm25s.build(bm25s.Config(), Corpus.of(world.passages)))
    framing = build_framing(tokenizer, shape.template, "inline", shape.role)
    env = _env(world, retriever, shape)
    questions = world.questions[: shape.questions]
    if len(questions) < shape.questions:
        raise InputError(f"questions is {shape.questions}; the world has {len(questions)}")
    turns, observations = {}, []
    for question in questions:
        *searches, answer = world.demonstrate(question, False)
        turns[question.id] = (*searches[: shape.turns - 1], answer)
        env.reset(options={"question": question})
        observations.append([env.step(text)[0] for text in turns[question.id][:-1]])
    return Task(
        shape=shape,
        world=world,
        retriever=retriever,
        framing=framing,
        questions=questions,
        turns=turns,
        prompts=[framing.prompt_ids(question) for question in questions],
        observations=observations,
        observation_ids=[[framing.observation_ids(text) for text in read] for read in observations],
    )


def _env(world: Dataset, retriever: CachedRetriever, shape: Shape) -> SearchEnv:
    # Two turns more than are played: no observation asks for the answer.
    return make_env(world, retriever, top_k=shape.top_k, max_turns=shape.turns + 2)


def completion_ids(trajectory: Trajectory) -> list[int]:
    """All tokens of an episode after its prompt."""
    first, *others = trajectory.turns
    return [*first.action_ids, *(i for t in others for i in (*t.prompt_ids, *t.action_ids))]


def reward(completion: Sequence[int]) -> float:
    """A number in [0, 1) that differs between any two samples: no group is without advantage."""
    data = torch.tensor(completion, dtype=torch.int32).numpy().tobytes()
    return zlib.crc32(data) / 2**32


def rewards(completions: Sequence[Sequence[int]]) -> Tensor:
    """(B, 1) float32, as `Batch.rewards` of episodes that are scored once."""
    return torch.tensor([[reward(completion)] for completion in completions])
