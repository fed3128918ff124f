"""ST-PPO: the name of SO-PPO in the first version of its paper.

SORL (arXiv:2511.20718v1). The same file under both names: results are those of `so_ppo`.
"""

from .so_ppo import Config, build

__all__ = ["Config", "build"]
