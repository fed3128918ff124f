r"""ReSearch's agent: its own tags, and an answer in \boxed{} (arXiv:2503.19470, Table 1).

Results come inside <result> instead of <information>; what stands in the last \boxed{} of <answer>
is the answer.
"""

from dataclasses import dataclass

from ..dialects import RESEARCH
from ..methods import Method, Setting, TagAgent

DEFAULTS = {"prompt": {"template": "research", "role": "system"}}


@dataclass(frozen=True)
class Config:
    """No settings: sections env and prompt say how it plays."""


def build(config: Config, setting: Setting) -> Method:
    """The method."""
    return TagAgent(dialect=RESEARCH)
