"""Does torch.compile pay for an update on this machine? CPU seconds of forward and backward passes.

    python -m benchmarks.compiled [--rounds 3]

The blocks of the embedded model are compiled one by one, for shapes that vary, as micro-batches do.
Both sides do the same passes; the first compiled round includes the compilation. CPU seconds, not
seconds: other work on the machine does not count.
"""

import argparse
import time

import torch

from agents.assembly import build_policy
from agents.config import ModelOptions
from agents.policy import SearchPolicy

SHAPES = ((2, 200), (1, 260), (3, 180), (2, 222))  # rows and tokens of a round's micro-batches
ACTIONS = 60


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Compiled blocks against eager ones.")
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    policy = build_policy(ModelOptions(name="embedded", lora_last_layers=10), seed=0)
    for _ in range(rounds):
        _report("eager", policy)
    for block in policy._backbone.layers:
        block.compile(dynamic=True)
    for _ in range(rounds):
        _report("compiled", policy)


def _report(side: str, policy: SearchPolicy) -> None:
    seconds = [_pass(policy, rows, width) for rows, width in SHAPES]
    parts = " ".join(f"{value:7.2f}" for value in seconds)
    print(f"{side:>9} {parts}   sum {sum(seconds):7.2f}", flush=True)


def _pass(policy: SearchPolicy, rows: int, width: int) -> float:
    """CPU seconds of one micro-batch, forward and backward."""
    ids = torch.randint(10, 40_000, (rows, width))
    actions = torch.zeros(rows, width, dtype=torch.bool)
    actions[:, width // 2 : width // 2 + ACTIONS] = True
    began = time.process_time()
    logprobs, _ = policy.logprobs(ids, actions, 1.0)
    logprobs.sum().backward()
    ended = time.process_time()
    for parameter in policy.trainable_parameters():
        parameter.grad = None
    return ended - began


if __name__ == "__main__":
    main()
