"""Supervised fine-tuning: a model that has cloned answers, asked without search.

The SFT baseline of arXiv:2503.09516, Table 2. The agent comes from a run that only cloned
(`train.py --env.max_turns 1 --run.steps 0 --warm_start.steps 200`: question -> its answer).
"""

from dataclasses import dataclass

from retrieval.errors import InputError

from ..methods import Method, Setting, TagAgent


@dataclass(frozen=True)
class Config:
    """No settings: section prompt says what it reads."""


def build(config: Config, setting: Setting) -> Method:
    """The method.

    Raises:
        InputError: The agent has not been trained.
    """
    if setting.trained_with is None:
        raise InputError(
            "method.name: sft needs a trained agent; give --agent the folder of a run made with "
            "--env.max_turns 1 --run.steps 0 --warm_start.steps N"
        )
    return TagAgent(turns=1)
