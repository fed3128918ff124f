"""Trajectories from one process to the others, as JSON: data, not pickles."""

from collections.abc import Sequence

from pydantic import ConfigDict, TypeAdapter

from . import processes
from .types import Trajectory

# JSON's numbers are exact both ways; a reward or a log-probability may be NaN or infinite.
_TRAJECTORIES = TypeAdapter(list[Trajectory], config=ConfigDict(ser_json_inf_nan="constants"))


def gather_trajectories(mine: Sequence[Trajectory]) -> list[Trajectory]:
    """Those of all processes, in the order of processes."""
    if processes.size() == 1:
        return list(mine)
    parts = processes.gather(_TRAJECTORIES.dump_json(list(mine)))
    return [trajectory for part in parts for trajectory in _TRAJECTORIES.validate_json(part)]
