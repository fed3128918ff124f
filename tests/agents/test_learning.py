"""T18 of the lessons: every algorithm of the folder learns a task that takes seconds.

Eight questions, one turn, and the answer is always yes. A warm start on demonstrations that say yes
and no equally often leaves a policy right half of the time; reinforcement has to find the rest.
"""

import math
from dataclasses import replace

import pytest
import torch
from peft import get_peft_model_state_dict, set_peft_model_state_dict

from agents.algorithms import sft
from agents.batching import to_batch
from agents.critic import Critic
from agents.generation.hf import HFEngine
from agents.policy import LoraOptions, SearchPolicy
from agents.prompts import build_framing
from agents.rollout import Rollout, demonstrate
from agents.trainer import StepOptions, Trainer
from envs.types import Question
from retrieval import plugins
from tests.agents import builds

QUESTIONS = [Question(f"q{i}", f"{name}?", ("yes",)) for i, name in enumerate("ABCDEFGH")]
OPTIONS = StepOptions(
    epochs=1, minibatches=2, microbatch_tokens=4096, max_grad_norm=1.0, temperature=1.0
)
GROUP_SIZE = 8
UPDATES = 25
IMITATIONS = {"sft"}  # cloning the agent's own samples, right or wrong, teaches nothing
# A trust region of 3e-4 lets a step of this size through only in part.
SLOWER = {"gspo": {"clip_low": 0.1, "clip_high": 0.1}}


def play(rollout: Rollout, seed: int, temperature: float = 1.0):
    options = builds.sampling(max_tokens=8, seed=seed, temperature=temperature)
    return rollout.play(QUESTIONS, GROUP_SIZE, options)


def mean_reward(trajectories) -> float:
    return sum(t.reward for t in trajectories) / len(trajectories)


class Pupil:
    """A policy that knows the grammar and answers yes and no equally often."""

    def __init__(self) -> None:
        self.policy = builds.build_policy(rank=8)
        rollout = builds.build_rollout(HFEngine(self.policy), self.policy, max_turns=1)
        framing = build_framing(self.policy.tokenizer, "Yes or no.", "inline")
        self.rollout = builds.with_framing(rollout, framing)
        self.losses = self._clone()
        state = get_peft_model_state_dict(self.policy.model)
        self._start = {name: tensor.clone() for name, tensor in state.items()}

    def trainer(self, algorithm, lr: float) -> Trainer:
        groups = [{"params": self.policy.trainable_parameters()}]
        critic = None
        if algorithm.value is not None:
            # A fresh one: what an earlier test's critic has learnt must not help.
            if hasattr(self, "critic"):
                self.policy.model.delete_adapter("critic")
            critic = self.critic = Critic(self.policy, LoraOptions(8, 16, ("q_proj", "v_proj"), 0))
            groups.append({"params": critic.parameters(), "lr": 5e-3})
        optimizer = torch.optim.AdamW(groups, lr=lr, weight_decay=0.0)
        return Trainer(self.policy, algorithm, optimizer, OPTIONS, None, critic)

    def _clone(self) -> list[float]:
        env, framing = self.rollout.make_env(), self.rollout.framing
        shown = [
            demonstrate(question, [f"<answer>{answer}</answer>"], env, framing)
            for question in QUESTIONS
            for answer in ("yes", "no")
        ]
        batch = to_batch(shown, self.policy.pad_id)
        trainer = self.trainer(sft.build(sft.Config()), lr=1e-2)
        trainer.options = replace(OPTIONS, minibatches=1)
        return [trainer.update(batch, step)["policy_loss"] for step in range(40)]

    def start_again(self) -> SearchPolicy:
        set_peft_model_state_dict(self.policy.model, self._start)
        return self.policy


@pytest.fixture(scope="module")
def pupil() -> Pupil:
    return Pupil()


def test_t18_imitation_lowers_the_loss_to_the_entropy_of_the_demonstrations(pupil) -> None:
    # A random model of 1,024 tokens starts above log 1024 = 6.9 nats a token. What cannot be learnt
    # is the choice of yes or no: log 2 nats in one token of each turn.
    tokens = [len(pupil.policy.encode(f"<answer>{word}</answer>")) for word in ("yes", "no")]
    floor = math.log(2) / (sum(tokens) / 2)
    assert pupil.losses[0] > 6.9
    assert floor * 0.9 < pupil.losses[-1] < floor + 0.05
    rewards = mean_reward(play(pupil.rollout, seed=1))
    # 64 episodes at 1/2: sd 0.0625; within 4 sd.
    assert 0.25 < rewards < 0.75


@pytest.mark.parametrize("name", sorted(set(plugins.names("agents.algorithms")) - IMITATIONS))
def test_t18_the_reward_rises(pupil, name) -> None:
    policy = pupil.start_again()
    module = plugins.load("agents.algorithms", name)
    trainer = pupil.trainer(module.build(module.Config(**SLOWER.get(name, {}))), lr=5e-4)
    rewards = []
    for update in range(UPDATES):
        played = play(pupil.rollout, seed=update)
        rewards.append(mean_reward(played))
        trainer.update(to_batch(played, policy.pad_id), update)
    first, last = sum(rewards[:3]) / 3, sum(rewards[-5:]) / 5
    # 192 and 320 episodes: the difference of the two shares has a standard deviation of at most
    # sqrt(0.25 / 192 + 0.25 / 320) = 0.046; 4 of them are 0.18.
    assert last > first + 0.18, rewards
    assert last > 0.8, rewards
