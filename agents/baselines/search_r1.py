"""The tag agent, trained or zero-shot: it searches and answers in the environment's own tags.

Search-R1's inference (arXiv:2503.09516, Algorithm 1). An agent of a run is asked with the run's own
prompt; an untrained model with the published one.
"""

from dataclasses import dataclass

from ..methods import Method, Setting, TagAgent

DEFAULTS = {"prompt": {"template": "search_r1"}}


@dataclass(frozen=True)
class Config:
    """No settings: sections env and prompt say how it plays."""


def build(config: Config, setting: Setting) -> Method:
    """The method."""
    return TagAgent()
