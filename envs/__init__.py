"""The Gymnasium side: questions, actions, rewards. Importing it registers the environments."""

import gymnasium

gymnasium.register(id="SearchQA-v0", entry_point="envs.registration:make_env")
gymnasium.register(
    id="MedicalQA-v0",
    entry_point="envs.registration:make_env",
    kwargs={"dataset": "formulary", "reward": {"choice": 1.0}},
)
