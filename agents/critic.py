"""The critic: a second adapter and a value head on the policy's own base model."""

import torch
from torch import Tensor

from .policy import LoraOptions, SearchPolicy
from .types import Batch

ADAPTER = "critic"


class Critic:
    """Values of the states before action tokens. The base model is not copied."""

    def __init__(self, policy: SearchPolicy, options: LoraOptions, lr: float = 1e-4) -> None:
        """Add the adapter to the policy's model.

        Args:
            policy: With an adapter of its own, which stays the active one.
            options: Of the critic's adapter.
            lr: Learning rate, for whoever makes the optimiser.

        Raises:
            InputError: Options that do not fit the model.
        """
        self.policy = policy
        self.lr = lr
        policy.add_adapter(ADAPTER, options)
        # Zero: before training every state is worth 0, whatever the hidden states are.
        self.head = torch.nn.Linear(policy.hidden_size, 1, device=policy.device)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def parameters(self) -> list[torch.nn.Parameter]:
        """Adapter and head, in a fixed order."""
        return [*self.policy.adapter_parameters(ADAPTER), *self.head.parameters()]

    def values(self, batch: Batch) -> Tensor:
        """(B, T) float32, differentiable: V of the state before each action token, 0 elsewhere."""
        rows, columns = batch.action_mask.nonzero(as_tuple=True)
        with self.policy.adapter(ADAPTER):
            states = self.policy.states_before(batch.input_ids, rows, columns)
        chosen = self.head(states.float())[:, 0]
        blank = torch.zeros(batch.input_ids.shape, device=chosen.device)
        return blank.index_put((rows, columns), chosen)
