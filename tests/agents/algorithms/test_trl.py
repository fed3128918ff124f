"""TRL's GRPO-family losses and ours on identical tensors, within 1e-6.

TRL has no function of arrays for them: the loss is a method of its trainer. It runs here with the
log-probabilities given, in evaluation mode (no gradient accumulation), on rows whose action tokens
have gaps, which TRL takes for its mask.
"""

from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from trl import GRPOTrainer

from agents.losses import kl, sequence_mean_weights
from agents.types import Batch
from retrieval import plugins
from tests.agents.builds import random_batch
from tests.contracts.test_algorithms import near, terms_of, total

TRL: dict[str, dict[str, object]] = {
    "grpo": {"loss_type": "grpo"},
    "dr_grpo": {"loss_type": "dr_grpo", "max_completion_length": 512},
    "dapo": {"loss_type": "dapo", "epsilon_high": 0.28},
    "gspo": {
        "loss_type": "grpo",
        "importance_sampling_level": "sequence",
        "epsilon_low": 3e-4,
        "epsilon_high": 4e-4,
    },
    "sapo": {"loss_type": "sapo"},
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0},
}


class Losses(GRPOTrainer):
    """TRL's trainer without a model: only what its loss reads."""

    def __init__(self, logprobs: torch.Tensor, delta: float | None, **options: object) -> None:
        self._given = logprobs
        self._metrics = {"eval": defaultdict(list)}
        self.accelerator = Accelerator(cpu=True)
        self.model = SimpleNamespace(training=False)
        self.args = SimpleNamespace(
            delta=delta,
            use_bias_correction_kl=False,
            sapo_temperature_pos=1.0,
            sapo_temperature_neg=1.05,
        )
        self.top_entropy_quantile = 1.0
        self.off_policy_mask_threshold = None
        self.importance_sampling_level = "token"
        self.epsilon_low = self.epsilon_high = 0.2
        self.beta = 0.0
        self.use_vllm = self.aux_loss_enabled = self._entropy_bonus_enabled = False
        vars(self).update(options)

    def _get_per_token_logps_and_entropies(self, *args: object, **kwargs: object):
        return self._given, torch.zeros_like(self._given), None

    def loss(self, batch: Batch, advantages: torch.Tensor) -> torch.Tensor:
        mask = batch.action_mask.long()
        nothing = batch.input_ids[:, :0]
        inputs = {
            "prompt_ids": nothing,
            "prompt_mask": nothing,
            "completion_ids": batch.input_ids,
            "completion_mask": mask,
            "old_per_token_logps": batch.old_logprobs,
            "ref_per_token_logps": batch.ref_logprobs,
            # One number per trajectory, as every algorithm here gives to all its action tokens.
            "advantages": advantages.gather(1, mask.argmax(1, keepdim=True))[:, 0],
            "num_items_in_batch": mask.sum(),
        }
        return self._compute_loss(self.model, inputs)


@pytest.mark.parametrize("name", TRL)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dual_clip", [None, 1.3])
def test_the_loss_and_its_gradient_are_trls(name, seed, dual_clip) -> None:
    module = plugins.load("agents.algorithms", name)
    clips = hasattr(module.Config(), "dual_clip")
    config = module.Config(**({"dual_clip": dual_clip} if clips else {}))
    algorithm, batch = module.build(config), random_batch(seed)
    # The mean over a sequence must be inside GSPO's band for some, outside for others.
    logprobs = near(batch, 5e-4 if name == "gspo" else 0.4, seed)
    ours = total(terms_of(algorithm, batch, logprobs).per_token, algorithm, batch)
    delta = dual_clip if clips else None
    theirs = Losses(logprobs, delta, **TRL[name]).loss(batch, algorithm.advantage(batch))
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-6, abs=1e-9)
    (got,) = torch.autograd.grad(ours, logprobs)
    (expected,) = torch.autograd.grad(theirs, logprobs)
    assert expected.any()
    assert torch.allclose(got, expected, rtol=1e-6, atol=1e-9)


def test_the_kl_term_is_trls() -> None:
    batch = random_batch(5)
    logprobs = near(batch, 0.4)
    nothing = torch.zeros_like(batch.old_logprobs)
    theirs = Losses(logprobs, None, loss_type="grpo", beta=0.7).loss(batch, nothing)
    cost = kl("k3", logprobs, batch.ref_logprobs, batch.action_mask)
    ours = 0.7 * (cost * sequence_mean_weights(batch.action_mask)).sum()
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-6)
