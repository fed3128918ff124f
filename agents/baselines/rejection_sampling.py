"""The tag agent after rejection sampling: fine-tuned on its own right trajectories.

The baseline of that name of arXiv:2503.09516, Table 2 (`train.py --algorithm.name
rejection_sampling`).
"""

from dataclasses import dataclass

from retrieval.errors import InputError

from ..methods import Method, Setting, TagAgent


@dataclass(frozen=True)
class Config:
    """No settings: sections env and prompt say how it plays."""


def build(config: Config, setting: Setting) -> Method:
    """The method.

    Raises:
        InputError: The agent was not trained by rejection sampling.
    """
    if setting.trained_with != "rejection_sampling":
        raise InputError(
            "method.name: rejection_sampling needs an agent of a run with --algorithm.name "
            f"rejection_sampling; this one's is {setting.trained_with or 'not trained'}"
        )
    return TagAgent()
