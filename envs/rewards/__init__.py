"""Reward terms, one file each; the folder is the registry."""

import math
from collections.abc import Mapping

from retrieval import plugins
from retrieval.errors import InputError

from ..types import Episode, Reward


def weighted(weights: Mapping[str, float]) -> Reward:
    """The weighted sum of reward terms, given by name, each with its default settings.

    Raises:
        InputError: No term, an unknown name, or a weight that is not a number.
    """
    if not weights:
        raise InputError("rewards: no term given; name at least one, e.g. {'exact_match': 1.0}")
    terms = []
    for name, weight in weights.items():
        if not isinstance(weight, int | float) or not math.isfinite(weight):
            raise InputError(f"rewards: the weight of {name!r} is {weight!r}; give a finite number")
        module = plugins.load("envs.rewards", name)
        terms.append((float(weight), module.build(module.Config())))

    def reward(episode: Episode) -> float:
        return sum(weight * term(episode) for weight, term in terms)

    return reward
