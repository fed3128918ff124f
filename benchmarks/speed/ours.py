"""Our side of a step: what `train.py` does in one, with its own rollout, engine and trainer."""

import time
from dataclasses import dataclass, replace

import torch

from agents.algorithms import grpo
from agents.assembly import build_policy
from agents.batching import to_batch
from agents.config import EngineOptions
from agents.engine import Sampling
from agents.generation.hf import HFEngine
from agents.model_options import ModelOptions
from agents.policy import SearchPolicy
from agents.rollout import Rollout
from agents.trainer import StepOptions, Trainer
from agents.types import Batch

from .task import Task, completion_ids, rewards

LEARNING_RATE = 1e-6  # TRL's default
MAX_GRAD_NORM = 1.0  # TRL's default too


def model_options(name: str, layers: int, recompute: bool = False) -> ModelOptions:
    """The policy that all parts measure: float32 on the CPU, LoRA of rank 16 on the last layers."""
    return ModelOptions(
        name=name,
        device="cpu",
        dtype="float32",
        lora_last_layers=layers,
        gradient_checkpointing=recompute,
    )


def endless_policy(options: ModelOptions) -> SearchPolicy:
    """A policy whose turns never end before their last token."""
    policy = build_policy(options, seed=0)
    policy.end_ids = frozenset()
    return policy


@dataclass(frozen=True, slots=True)
class Seconds:
    """How long a step took.

    Attributes:
        sampling: Playing a rollout batch, environments included.
        update: Everything after that.
    """

    sampling: float
    update: float


class Stepper:
    """Plays and trains on one rollout batch after the other, with GRPO."""

    def __init__(
        self, policy: SearchPolicy, task: Task, optimizer_steps: int, microbatch_tokens: int
    ) -> None:
        """Put the parts together.

        Args:
            policy: Of `endless_policy`.
            task: What is played.
            optimizer_steps: Of a rollout batch.
            microbatch_tokens: Tokens of a forward pass of an update, padding included.
        """
        self.policy = policy
        self._task = task
        self._rollout = Rollout(
            engine=HFEngine(policy),
            framing=task.framing,
            make_env=task.make_env,
            retriever=task.retriever,
            decode=policy.decode,
            top_k=task.shape.top_k,
            max_episodes=EngineOptions().max_episodes,
        )
        optimizer = torch.optim.AdamW(
            policy.trainable_parameters(), lr=LEARNING_RATE, weight_decay=0.0
        )
        options = StepOptions(1, optimizer_steps, microbatch_tokens, MAX_GRAD_NORM, 1.0)
        self._trainer = Trainer(policy, grpo.build(grpo.Config()), optimizer, options)

    def step(self, seed: int) -> Seconds:
        """Take a step.

        Raises:
            RuntimeError: It was not the work agreed on.
        """
        with self.policy.trunk.keeping():
            began = time.perf_counter()
            batch = self.play(seed)
            played = time.perf_counter()
            self.update(batch, seed)
            return Seconds(played - began, time.perf_counter() - played)

    def play(self, seed: int) -> Batch:
        """A rollout batch.

        Raises:
            RuntimeError: An episode is not the work agreed on.
        """
        task, size = self._task, self._task.shape.group_size
        sampling = Sampling(task.shape.tokens, temperature=1.0, stop=(), seed=seed)
        played = self._rollout.play(task.questions, size, sampling)
        completions = [completion_ids(trajectory) for trajectory in played]
        for row, completion in enumerate(completions):
            task.check(row // size, completion)
        return replace(to_batch(played, self.policy.pad_id), rewards=rewards(completions))

    def update(self, batch: Batch, seed: int) -> None:
        """Train on a rollout batch.

        Raises:
            RuntimeError: Rows were left out, or a step was not taken.
        """
        told = self._trainer.update(batch, seed)
        if told["trained_tokens"] != self._task.trained_tokens or told["skipped_steps"]:
            raise RuntimeError(f"{told['trained_tokens']:.0f} tokens trained")
