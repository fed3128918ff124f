"""What an objective may cost besides its reward: KL to the base model, and lost entropy."""

from dataclasses import dataclass

ESTIMATORS = ("k1", "k2", "k3")
PLACES = ("loss", "reward")
MAX_ERROR = 0.2  # of the adaptive controller, per update


@dataclass(frozen=True, slots=True)
class Penalty:
    """What a penalty plug-in builds; every algorithm can be combined with it.

    Attributes:
        kl: Coefficient of the KL to the base model, per action token in nats; 0 for none, and then
            no reference forward pass.
        estimator: "k1", "k2" or "k3".
        place: "loss" or "reward".
        target: The KL per token that the coefficient is steered to; None keeps it fixed.
        horizon: Episodes in which the steered coefficient may change e-fold, roughly.
        entropy: Coefficient of the entropy bonus, per action token in nats.
    """

    kl: float = 0.0
    estimator: str = "k3"
    place: str = "loss"
    target: float | None = None
    horizon: int = 10000
    entropy: float = 0.0

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
