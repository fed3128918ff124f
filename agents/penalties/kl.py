"""KL to the base model, in the loss or in the reward, fixed or steered; with an entropy bonus.

In the loss as GRPO has it (arXiv:2402.03300, Eq. 3, k3), in the reward as PPO for language models
has it (arXiv:1909.08593, Eq. 2, k1).
"""

from dataclasses import dataclass

from .. import bounds
from ..penalty import ESTIMATORS, PLACES, Penalty


@dataclass(frozen=True)
class Config:
    """The constants of the KL term.

    Attributes:
        coef: Coefficient of the KL to the base model (the adapter switched off), per action token
            in nats; 0 for none.
        estimator: k1, k2 or k3 (http://joschu.net/blog/kl-approx.html).
        place: "loss" adds the estimate to each token's loss; "reward" takes it, under the policy
            that sampled, off each token's reward.
        target: The KL per token that the coefficient is steered to (arXiv:1909.08593, section 2.2);
            null keeps it fixed.
        horizon: Episodes in which the steered coefficient may change e-fold, roughly.
        entropy: Coefficient of the entropy bonus, per action token in nats.
    """

    coef: float = 1e-3
    estimator: str = "k3"
    place: str = "loss"
    target: float | None = None
    horizon: int = 10000
    entropy: float = 0.0

    def __post_init__(self) -> None:
        bounds.at_least(self, 0, "coef", "entropy")
        bounds.one_of(self, "estimator", ESTIMATORS)
        bounds.one_of(self, "place", PLACES)
        bounds.positive(self, "target")
        bounds.at_least(self, 1, "horizon")


def build(config: Config) -> Penalty:
    """The KL term, and the entropy bonus."""
    return Penalty(
        kl=config.coef,
        estimator=config.estimator,
        place=config.place,
        target=config.target,
        horizon=config.horizon,
        entropy=config.entropy,
    )
