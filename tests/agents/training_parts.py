"""What the tests of the trainer share: batches, and a trainer that takes no step."""

from dataclasses import replace

import torch

from agents.algorithm import Algorithm
from agents.algorithms import grpo
from agents.batching import to_batch
from agents.penalty import Penalty
from agents.policy import SearchPolicy
from agents.trainer import StepOptions, Trainer
from agents.types import Batch
from tests.agents import builds

GRPO = grpo.build(grpo.Config())
WITH_KL = Penalty(kl=0.3)
ONE_STEP = StepOptions(
    epochs=1, minibatches=1, microbatch_tokens=150, max_grad_norm=0.0, temperature=0.8
)


def sampled(policy: SearchPolicy, rows: int = 12, spread: float = 0.0, seed: int = 4) -> Batch:
    """Random trajectories with the policy's own log-probabilities, `spread` off-policy."""
    batch = to_batch(builds.random_trajectories(rows, seed=seed), policy.pad_id)
    with torch.no_grad():
        old, _ = policy.logprobs(batch.input_ids, batch.action_mask, ONE_STEP.temperature)
    noise = torch.randn(old.shape, generator=torch.Generator().manual_seed(seed))
    return replace(batch, old_logprobs=old + spread * noise * batch.action_mask)


def still(
    policy: SearchPolicy,
    algorithm: Algorithm,
    options: StepOptions = ONE_STEP,
    penalty: Penalty | None = None,
) -> Trainer:
    """A trainer that computes gradients and takes no step."""
    optimizer = torch.optim.SGD(policy.trainable_parameters(), lr=0.0)
    return Trainer(policy, algorithm, optimizer, options, penalty)


def gradients(policy: SearchPolicy) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in policy.trainable_parameters()])


def weights(policy: SearchPolicy) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for p in policy.trainable_parameters()])


def block_calls(policy: SearchPolicy) -> list[int]:
    """A number per block, counting how often its MLP is computed from now on."""
    counts = [0] * policy.num_layers
    for index, block in enumerate(policy._backbone.layers):

        def count(*_: object, index: int = index) -> None:
            counts[index] += 1

        # Before, not after: recomputation stops as soon as nothing is missing any more.
        block.mlp.register_forward_pre_hook(count)
    return counts
