"""Bounds of a configuration's numbers, stated beside its fields.

A frozen dataclass calls these in `__post_init__`. They name the field; the command line puts the
section before it ("rollout.group_size is 0; give at least 1"). None is a value of its own, and no
bound holds for it.
"""

import math
from collections.abc import Callable, Collection
from typing import Any

from retrieval.errors import InputError


def at_least(options: Any, least: float, *names: str) -> None:
    """Refuse numbers below `least`, infinity and NaN."""
    _check(options, names, lambda value: value >= least, f"at least {least}")


def finite(options: Any, *names: str) -> None:
    """Refuse infinity and NaN."""
    _check(options, names, lambda value: True, "a number")


def one_of(options: Any, name: str, known: Collection[Any]) -> None:
    """Refuse a choice that does not exist."""
    value = getattr(options, name)
    if value not in known:
        raise InputError(f"{name} is {value!r}; choose one of {', '.join(map(str, known))}")


def positive(options: Any, *names: str) -> None:
    """Refuse 0, negative numbers, infinity and NaN."""
    _check(options, names, lambda value: value > 0, "more than 0")


def share(options: Any, *names: str) -> None:
    """Refuse numbers outside 0 to 1."""
    _check(options, names, lambda value: 0 <= value <= 1, "a share from 0 to 1")


def _check(
    options: Any, names: tuple[str, ...], holds: Callable[[float], bool], wanted: str
) -> None:
    for name in names:
        value = getattr(options, name)
        if value is not None and not (math.isfinite(value) and holds(value)):
            raise InputError(f"{name} is {value}; give {wanted}")
