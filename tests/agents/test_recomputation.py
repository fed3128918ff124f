"""Gradient checkpointing: the same gradients, less kept, blocks computed twice."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from agents.algorithms import so_grpo
from agents.policy import SearchPolicy
from agents.trainer import Trainer
from agents.types import Batch
from tests.agents import builds
from tests.agents.training_parts import ONE_STEP, block_calls, gradients, sampled, still


def policies(**options) -> tuple[SearchPolicy, SearchPolicy]:
    """Equal policies, of which the second recomputes."""
    plain, recomputing = (builds.build_policy(b_std=0.1, **options) for _ in range(2))
    recomputing.recompute_activations()
    return plain, recomputing


def kept_bytes(forward: Callable[[], Tensor]) -> int:
    """Bytes that autograd keeps between the forward and the backward pass."""
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        graph = forward()
    assert graph.requires_grad
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize("last_layers", [0, 1])
def test_the_gradient_is_the_same(last_layers) -> None:
    found = []
    for policy in policies(last_layers=last_layers):
        batch = sampled(policy)
        logprobs, entropy = policy.logprobs(batch.input_ids, batch.action_mask, 0.8, True)
        (logprobs.sum() + entropy.sum()).backward()
        found.append(gradients(policy))
    assert found[0].abs().max() > 1e-2
    assert (found[0] - found[1]).abs().max() <= 1e-6 * found[0].abs().max()


def test_blocks_are_computed_again_in_the_backward_pass_and_only_there() -> None:
    _, policy = policies()
    batch = sampled(policy)
    counts = block_calls(policy)
    logprobs, _ = policy.logprobs(batch.input_ids, batch.action_mask, 1.0)
    assert counts == [1, 1]
    logprobs.sum().backward()
    assert counts == [2, 2]
    with torch.no_grad():
        policy.logprobs(batch.input_ids, batch.action_mask, 1.0)
    assert counts == [3, 3]


def test_of_a_block_only_its_input_is_kept() -> None:
    """64 numbers of 4 bytes a token and block; all else that is kept stands outside of blocks."""
    ids = torch.arange(2, 102).repeat(3, 1)
    plain, recomputing = policies()
    without, with_ = (kept_bytes(lambda p=p: p.hidden(ids)) for p in (plain, recomputing))
    tokens = ids.numel()
    base = sum(p.untyped_storage().nbytes() for p in recomputing.model.parameters())
    assert without > 8 * tokens * 64 * 4
    # The two inputs, and what the final norm keeps: the state and its scale.
    assert with_ - base <= 2 * tokens * 64 * 4 + tokens * (64 + 1) * 4


def test_sampling_goes_on_as_before() -> None:
    """Blocks that recompute would drop the key-value cache: they must not while sampling."""
    for policy in policies():
        ids = torch.arange(2, 40)[None]
        with torch.inference_mode():
            whole = policy.hidden(ids)
            assert torch.allclose(policy._hidden_in_two_reads(ids), whole, atol=1e-5)


def test_the_critics_blocks_are_computed_again_with_the_critics_adapter() -> None:
    """The backward pass comes when the policy's adapter is active again."""
    found = []
    for policy in policies():
        torch.manual_seed(6)
        critic = builds.build_critic(policy)
        torch.nn.init.normal_(critic.head.weight, generator=torch.Generator().manual_seed(3))
        critic.values(sampled(policy)).sum().backward()
        assert policy.model.active_adapters == ["default"]
        found.append(torch.cat([p.grad.flatten() for p in critic.parameters()]))
        assert all(p.grad is None for p in policy.trainable_parameters())
    assert found[0].abs().max() > 1e-2
    assert (found[0] - found[1]).abs().max() <= 1e-6 * found[0].abs().max()


def far_off_policy(policy: SearchPolicy) -> Batch:
    batch = sampled(policy, spread=1.0)
    return replace(batch, rewards=torch.rand(batch.rewards.shape))


def test_two_backward_passes_through_one_graph() -> None:
    """SORL's normaliser takes the gradient of the clipped tokens first."""
    found = []
    algorithm = so_grpo.build(so_grpo.Config())
    for policy in policies():
        torch.manual_seed(5)
        trainer: Trainer = still(policy, algorithm, replace(ONE_STEP, microbatch_tokens=400))
        numbers = trainer.update(far_off_policy(policy), 0)
        assert numbers["clip_norm"] > 0
        found.append((numbers["clip_norm"], gradients(policy)))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    assert (found[0][1] - found[1][1]).abs().max() <= 1e-6 * found[0][1].abs().max()


def test_adapters_can_be_nested() -> None:
    policy = builds.build_policy(b_std=0.1)
    builds.build_critic(policy)
    with policy.adapter("critic"):
        with policy.adapter("critic"):
            pass
        assert policy.model.active_adapters == ["critic"]
        with policy.adapter("default"):
            assert policy.model.active_adapters == ["default"]
        assert policy.model.active_adapters == ["critic"]
    assert policy.model.active_adapters == ["default"]
