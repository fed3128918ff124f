"""What an objective may cost besides its reward: KL to the base model, and lost entropy."""

from dataclasses import dataclass

from . import bounds

ESTIMATORS = ("k1", "k2", "k3")
PLACES = ("loss", "reward")
MAX_ERROR = 0.2  # of the adaptive controller, per update


@dataclass(frozen=True, slots=True)
class Penalty:
    """The `penalty` section; every algorithm can be combined with it.

    Attributes:
        kl: Coefficient of the KL to the base model (the adapter switched off), per action token in
            nats; 0 for none, and then no reference forward pass.
        estimator: k1, k2 or k3 (http://joschu.net/blog/kl-approx.html).
        place: "loss" adds the estimate to each token's loss; "reward" takes it, under the policy
            that sampled, off each token's reward.
        target: The KL per token that the coefficient is steered to (arXiv:1909.08593, section 2.2);
            null keeps it fixed.
        horizon: Episodes in which the steered coefficient may change e-fold, roughly.
        entropy: Coefficient of the entropy bonus, per action token in nats.
    """

    kl: float = 0.0
    estimator: str = "k3"
    place: str = "loss"
    target: float | None = None
    horizon: int = 10000
    entropy: float = 0.0

    def __post_init__(self) -> None:
        bounds.at_least(self, 0, "kl", "entropy")
        bounds.one_of(self, "estimator", ESTIMATORS)
        bounds.one_of(self, "place", PLACES)
        bounds.positive(self, "target")
        bounds.at_least(self, 1, "horizon")

    @property
    def shapes_loss(self) -> bool:
        """Whether a token without advantage has a gradient all the same."""
        return bool(self.entropy) or (bool(self.kl) and self.place == "loss")

    def steered(self, coefficient: float, measured: float, episodes: int) -> float:
        """The coefficient after an update in which the KL per token was `measured`."""
        if self.target is None:
            return coefficient
        error = measured / self.target - 1
        bounded = max(-MAX_ERROR, min(MAX_ERROR, error))
        return coefficient * (1 + bounded * episodes / self.horizon)
