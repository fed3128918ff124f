"""What the laboratory compares: algorithms with their options, and regimes of the optimiser."""

from typing import NamedTuple


class Variant(NamedTuple):
    """One row of the comparison.

    Attributes:
        flags: Of train.py, the regime's aside.
        needs_clip: It differs from another variant only in what is done once tokens clip, and so
            not at all where one optimiser step is made per rollout batch.
    """

    flags: dict[str, str]
    needs_clip: bool = False


_CRITIC = {"algorithm.critic_lr": "1e-3", "algorithm.critic_rank": "32"}
# Plain SGD at the learning rate from which GRPO begins to suffer (found by the same scan).
_SGD = {"optimizer.name": "sgd", "optimizer.lr": "0.6"}


def _ppo(name: str, **options: str) -> dict[str, str]:
    return {"algorithm.name": name, **_CRITIC, **_options(options)}


def _grpo(name: str, **options: str) -> dict[str, str]:
    return {"algorithm.name": name, **_options(options)}


def _options(options: dict[str, str]) -> dict[str, str]:
    return {f"algorithm.{key}": value for key, value in options.items()}


_GRADIENT = {"apply_to": "gradient"}
# Twice the learning rate of the regime.
_LR2 = {"optimizer.lr": "2e-3"}
# An invalid rate that no run which ends well has; a checkpoint a step to go back to.
_GUARD = {
    "guard.invalid_rate": "0.1",
    "guard.window": "2",
    "guard.max_rollbacks": "20",
    "run.save_every": "1",
    "run.keep_checkpoints": "1",
}

VARIANTS: dict[str, Variant] = {
    "ppo": Variant(_ppo("ppo")),
    "turn_ppo": Variant(_ppo("turn_ppo")),
    "s_ppo": Variant(_ppo("s_ppo", **_GRADIENT), needs_clip=True),
    "so_ppo": Variant(_ppo("so_ppo", **_GRADIENT), needs_clip=True),
    "grpo": Variant(_grpo("grpo")),
    "so_grpo": Variant(_grpo("so_grpo", **_GRADIENT), needs_clip=True),
    "gspo": Variant(_grpo("gspo")),
    "stratified_grpo": Variant(_grpo("stratified_grpo")),
    "stratified_grpo-1.0": Variant(_grpo("stratified_grpo", alpha="1.0")),
    "stratified_grpo-random": Variant(_grpo("stratified_grpo", strata="random")),
    "stratified_grpo-turns": Variant(_grpo("stratified_grpo", strata="turns")),
    "so_grpo-max1": Variant(_grpo("so_grpo", rule="max1", **_GRADIENT), needs_clip=True),
    "so_grpo-literal": Variant(_grpo("so_grpo", rule="literal", **_GRADIENT), needs_clip=True),
    "so_grpo-step": Variant(_grpo("so_grpo", apply_to="step"), needs_clip=True),
    "so_grpo-max1-step": Variant(_grpo("so_grpo", rule="max1", apply_to="step"), needs_clip=True),
    "so_grpo-literal-step": Variant(
        _grpo("so_grpo", rule="literal", apply_to="step"), needs_clip=True
    ),
    "so_ppo-step": Variant(_ppo("so_ppo", apply_to="step"), needs_clip=True),
    "grpo-sgd": Variant(_grpo("grpo") | _SGD, needs_clip=True),
    # A constant scale of the step, the mean of the one that `so_grpo-step` chooses by ||C||.
    "grpo-lr0.7": Variant(_grpo("grpo") | {"optimizer.lr": "7e-4"}, needs_clip=True),
    "grpo-guard": Variant(_grpo("grpo") | _GUARD),
    "grpo-lr2": Variant(_grpo("grpo") | _LR2, needs_clip=True),
    "grpo-lr2-guard": Variant(_grpo("grpo") | _LR2 | _GUARD, needs_clip=True),
    "so_grpo-sgd": Variant(_grpo("so_grpo", **_GRADIENT) | _SGD, needs_clip=True),
    "so_grpo-sgd-max1": Variant(_grpo("so_grpo", rule="max1", **_GRADIENT) | _SGD, needs_clip=True),
    "so_grpo-sgd-literal": Variant(
        _grpo("so_grpo", rule="literal", **_GRADIENT) | _SGD, needs_clip=True
    ),
    "dr_grpo": Variant(_grpo("dr_grpo")),
    "dapo": Variant(_grpo("dapo")),
    "sapo": Variant(_grpo("sapo")),
    "bapo": Variant(_grpo("bapo")),
    "cispo": Variant(_grpo("cispo")),
    "gigpo": Variant(_grpo("gigpo")),
    "rloo": Variant(_grpo("rloo")),
    "reinforce_pp": Variant(_grpo("reinforce_pp")),
    "rejection_sampling": Variant(_grpo("rejection_sampling")),
}

# One optimiser step per rollout batch, or sixteen on the same one. Where a base algorithm begins to
# collapse was found by a scan over learning rates (docs/stability.md).
REGIMES: dict[str, dict[str, str]] = {
    "on-policy": {
        "optimizer.lr": "2e-3",
        "optimizer.epochs": "1",
        "optimizer.minibatches": "1",
    },
    "off-policy": {
        "optimizer.lr": "1e-3",
        "optimizer.epochs": "2",
        "optimizer.minibatches": "8",
    },
}

# The laboratory's questions: (a variant, the one that it is compared with).
CONTRASTS: dict[str, list[tuple[str, str]]] = {
    "a. turn ratio, normaliser, both, against token-level PPO": [
        ("turn_ppo", "ppo"),
        ("s_ppo", "ppo"),
        ("so_ppo", "ppo"),
        ("so_ppo", "turn_ppo"),
        ("so_ppo-step", "ppo"),
        ("so_ppo-step", "so_ppo"),
    ],
    "b. rules of the normaliser, against GRPO without it": [
        ("so_grpo", "grpo"),
        ("so_grpo-max1", "grpo"),
        ("so_grpo-literal", "grpo"),
        ("so_grpo-step", "grpo"),
        ("so_grpo-max1-step", "grpo"),
        ("so_grpo-literal-step", "grpo"),
        ("so_grpo-step", "so_grpo"),
        ("grpo-lr0.7", "grpo"),
        ("so_grpo-step", "grpo-lr0.7"),
        ("so_grpo-sgd", "grpo-sgd"),
        ("so_grpo-sgd-max1", "grpo-sgd"),
        ("so_grpo-sgd-literal", "grpo-sgd"),
    ],
    "c. strata, against GRPO": [
        ("stratified_grpo", "grpo"),
        ("stratified_grpo-1.0", "grpo"),
        ("stratified_grpo-turns", "grpo"),
        ("stratified_grpo-random", "grpo"),
        ("stratified_grpo", "stratified_grpo-random"),
    ],
    "d. sequences and turns, against GRPO": [
        ("gspo", "grpo"),
        ("gspo", "so_grpo"),
    ],
    "e. the guard, against the same without it": [
        ("grpo-guard", "grpo"),
        ("grpo-lr2-guard", "grpo-lr2"),
    ],
}
