"""Updates that any number of processes must do alike, and what they leave behind."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from agents.algorithm import Algorithm
from agents.algorithms import bapo, grpo, ppo, reinforce_pp, so_ppo
from agents.penalty import Penalty
from agents.trainer import Trainer
from agents.types import Batch
from tests.agents import builds
from tests.agents.training_parts import ONE_STEP, sampled

# Rounding decides Adam's direction where a gradient is all but 0: SGD shows the gradients' own.
SGD: tuple[Any, float] = (torch.optim.SGD, 0.03)
ADAM: tuple[Any, float] = (torch.optim.AdamW, 1e-3)
STEERED = Penalty(kl=0.3, target=0.01, horizon=100)


def nothing_to_learn(batch: Batch) -> Batch:
    """Rewards are all equal, and no row needs a pass."""
    return replace(batch, rewards=torch.zeros_like(batch.rewards))


@dataclass(frozen=True)
class Case:
    """One update.

    Attributes:
        algorithm: How.
        penalty: KL and entropy.
        optimizer: Its class, and the learning rate.
        rows: Of the batch.
        change: Made to the batch.
    """

    algorithm: Algorithm
    penalty: Penalty | None = None
    optimizer: tuple[Any, float] = SGD
    rows: int = 12
    change: Callable[[Batch], Batch] = lambda batch: batch


CASES = {
    "grpo": Case(grpo.build(grpo.Config())),
    "grpo, adam": Case(grpo.build(grpo.Config()), optimizer=ADAM),
    "grpo, kl in the loss": Case(grpo.build(grpo.Config()), STEERED),
    "grpo, entropy": Case(grpo.build(grpo.Config()), Penalty(entropy=0.1)),
    "grpo, fewer rows than processes": Case(grpo.build(grpo.Config()), STEERED, rows=3),
    "grpo, nothing to learn": Case(
        grpo.build(grpo.Config()), optimizer=ADAM, change=nothing_to_learn
    ),
    "reinforce_pp": Case(reinforce_pp.build(reinforce_pp.Config())),
    "bapo": Case(bapo.build(bapo.Config())),
    "ppo": Case(ppo.build(ppo.Config())),
    "ppo, adam, kl in the reward": Case(
        ppo.build(ppo.Config()), replace(STEERED, place="reward"), ADAM
    ),
    "so_ppo, step": Case(so_ppo.build(so_ppo.Config())),
    "so_ppo, gradient": Case(so_ppo.build(so_ppo.Config(apply_to="gradient"))),
}


def update(case: Case) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Two updates off the policy; the weights before and after, and the metrics of the last."""
    policy = builds.build_policy(b_std=0.1)
    torch.manual_seed(5)  # of the critic's fresh adapters
    critic = None if case.algorithm.value is None else builds.build_critic(policy)
    batch = case.change(sampled(policy, rows=case.rows, spread=0.3))
    kind, lr = case.optimizer
    optimizer = kind(policy.trainable_parameters(), lr=lr)
    learnt = policy.trainable_parameters()
    if critic is not None:
        optimizer.add_param_group({"params": critic.parameters()})
        learnt += critic.parameters()
    before = torch.cat([p.detach().flatten().clone() for p in learnt])
    options = replace(ONE_STEP, minibatches=3, max_grad_norm=1.0)
    trainer = Trainer(policy, case.algorithm, optimizer, options, case.penalty, critic)
    for seed in (0, 1):
        metrics = trainer.update(batch, seed)
    after = torch.cat([p.detach().flatten() for p in learnt])
    return {"before": before, "after": after}, metrics | {"kl_coef_next": trainer.kl_coef}
