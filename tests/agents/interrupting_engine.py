"""The policy's own engine; at its n-th session it is as if Ctrl-C had been pressed: a plug-in."""

import os
import signal
from dataclasses import dataclass

from agents.generation.hf import HFEngine


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        at: The session.
    """

    at: int = 0


def build(config, policy):
    """An engine of that kind."""

    class Interrupting(HFEngine):
        opened = 0

        def open(self, *arguments):
            self.opened += 1
            if self.opened == config.at:
                os.kill(os.getpid(), signal.SIGINT)
            return super().open(*arguments)

    return Interrupting(policy)
