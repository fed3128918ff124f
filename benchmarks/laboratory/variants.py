"""What the laboratory compares: algorithms with their options, and regimes of the optimiser."""

CRITIC = {"algorithm.critic_lr": "1e-3", "algorithm.critic_rank": "32"}
# Label -> flags of train.py.
VARIANTS: dict[str, dict[str, str]] = {
    "ppo": {"algorithm.name": "ppo", **CRITIC},
    "turn_ppo": {"algorithm.name": "turn_ppo", **CRITIC},
    "s_ppo": {"algorithm.name": "s_ppo", **CRITIC},
    "s_ppo-step": {"algorithm.name": "s_ppo", **CRITIC, "algorithm.apply_to": "step"},
    "so_ppo": {"algorithm.name": "so_ppo", **CRITIC},
    "so_ppo-step": {"algorithm.name": "so_ppo", **CRITIC, "algorithm.apply_to": "step"},
    "so_ppo-max1": {"algorithm.name": "so_ppo", **CRITIC, "algorithm.rule": "max1"},
    "so_ppo-literal": {"algorithm.name": "so_ppo", **CRITIC, "algorithm.rule": "literal"},
    "so_ppo-literal-step": {
        "algorithm.name": "so_ppo",
        **CRITIC,
        "algorithm.rule": "literal",
        "algorithm.apply_to": "step",
    },
    "grpo": {"algorithm.name": "grpo"},
    "so_grpo": {"algorithm.name": "so_grpo"},
    "so_grpo-step": {"algorithm.name": "so_grpo", "algorithm.apply_to": "step"},
    "gspo": {"algorithm.name": "gspo"},
    "stratified_grpo": {"algorithm.name": "stratified_grpo"},
    "stratified_grpo-1.0": {"algorithm.name": "stratified_grpo", "algorithm.alpha": "1.0"},
    "stratified_grpo-random": {"algorithm.name": "stratified_grpo", "algorithm.strata": "random"},
    "stratified_grpo-turns": {"algorithm.name": "stratified_grpo", "algorithm.strata": "turns"},
    "dr_grpo": {"algorithm.name": "dr_grpo"},
    "dapo": {"algorithm.name": "dapo"},
    "sapo": {"algorithm.name": "sapo"},
    "bapo": {"algorithm.name": "bapo"},
    "cispo": {"algorithm.name": "cispo"},
    "gigpo": {"algorithm.name": "gigpo"},
    "rloo": {"algorithm.name": "rloo"},
    "reinforce_pp": {"algorithm.name": "reinforce_pp"},
    "rejection_sampling": {"algorithm.name": "rejection_sampling"},
}

# One optimiser step per rollout batch, or sixteen on the same one.
REGIMES: dict[str, dict[str, str]] = {
    "on-policy": {"optimizer.epochs": "1", "optimizer.minibatches": "1"},
    "off-policy": {"optimizer.epochs": "4", "optimizer.minibatches": "4"},
}
