"""The memory estimate of `train.py --dry-run` against what a process really takes, on the CPU.

    python -m benchmarks.memory [--cases tiny embedded]

Every case runs in a process of its own: the policy is built, a small optimiser step makes gradients
and moments, a rollout is played in which every episode is as long as it may be, and an optimiser
step on a micro-batch of full size follows. The most resident memory of each phase, less what the
process held before (when it had done all of this once on the tiny model, so that libraries are
loaded), stands beside the estimate. glibc is told to give freed memory back at once; left alone it
keeps some for later.
"""

import argparse
import gc
import json
import os
import subprocess
import sys

import torch
from jsonargparse import ArgumentParser
from tqdm import tqdm

from agents import command_line, memory
from agents.assembly import build_policy
from agents.config import TRAIN_LAYOUT, RunConfig
from agents.devices import resolve_dtype
from agents.engine import Sampling
from agents.generation.hf import HFEngine
from agents.preflight import GB
from agents.trainer import StepOptions, Trainer
from agents.types import Batch
from benchmarks import resident

CPU = torch.device("cpu")
FRUGAL = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
LIMITS = "--env.max_turns 3 --engine.max_tokens 8 --optimizer.minibatches 1"
TINY = (
    "--model.name tiny --rollout.questions_per_step 32 --env.max_context_tokens 1024 "
    "--env.max_observation_tokens 400 --optimizer.microbatch_tokens 16384"
)
EMBEDDED = (
    "--model.name embedded --rollout.questions_per_step 2 --env.max_context_tokens 768 "
    "--env.max_observation_tokens 300 --optimizer.microbatch_tokens 1536"
)
RECOMPUTE = "--model.gradient_checkpointing true"
BFLOAT16 = "--model.dtype bfloat16"
CASES = {
    "tiny, float32": TINY,
    "tiny, float32, recomputing": f"{TINY} {RECOMPUTE}",
    "embedded, float32": EMBEDDED,
    "embedded, float32, recomputing": f"{EMBEDDED} {RECOMPUTE}",
    "embedded, float32, 10 layers": f"{EMBEDDED} --model.lora_last_layers 10",
    "embedded, bfloat16": f"{EMBEDDED} {BFLOAT16}",
    "embedded, bfloat16, recomputing": f"{EMBEDDED} {BFLOAT16} {RECOMPUTE}",
}


def main() -> None:
    """Print the table, or (as a child) measure one case."""
    parser = argparse.ArgumentParser(description="Estimated and measured memory.")
    parser.add_argument("--cases", nargs="*", default=["tiny", "embedded"], help="Model names.")
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        print(json.dumps(_measure(_config(CASES[args.child]))))
        return
    print(f"{'GB':32}{'sampling':>28}{'training':>28}")
    print(f"{'':32}" + 2 * f"{'estimated':>11}{'measured':>10}{'ratio':>7}")
    names = [name for name in CASES if name.split(",")[0] in args.cases]
    for name in tqdm(names, unit="case", leave=False):
        command = [sys.executable, "-m", "benchmarks.memory", "--child", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=FRUGAL)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr.strip().splitlines()[-1]}")
        measured = json.loads(done.stdout.splitlines()[-1])
        planned = _planned(_config(CASES[name]))
        columns = "".join(
            f"{planned[phase] / GB:11.3f}{measured[phase] / GB:10.3f}"
            f"{planned[phase] / measured[phase]:7.2f}"
            for phase in ("sampling", "training")
        )
        tqdm.write(f"{name:32}{columns}")


def _config(flags: str) -> RunConfig:
    shape = "--rollout.group_size 4 --engine.max_episodes 128 --evaluation.questions 0"
    argv = f"{shape} {LIMITS} {flags} --model.device cpu".split()
    return RunConfig(**command_line.parse(ArgumentParser(), TRAIN_LAYOUT, argv, {})[0])


def _planned(config: RunConfig) -> dict[str, float]:
    found = memory.estimate(config, resolve_dtype(config.model.dtype, CPU), on_gpu=False)
    return {
        "sampling": found.least + sum(item.bytes for item in found.sampling),
        "training": found.least + sum(item.bytes for item in found.training),
    }


def _measure(config: RunConfig) -> dict[str, int]:
    _phases(_config(f"{TINY} --rollout.questions_per_step 1 --optimizer.microbatch_tokens 1024"))
    gc.collect()
    before = resident.read("VmRSS")
    return {phase: peak - before for phase, peak in _phases(config).items()}


def _phases(config: RunConfig) -> dict[str, int]:
    """The most resident bytes of each phase."""
    policy = build_policy(config.model, seed=0)
    policy.end_ids = frozenset()  # no turn ends early
    optimizer = torch.optim.AdamW(policy.trainable_parameters(), lr=1e-6)
    options = StepOptions(1, 1, config.optimizer.microbatch_tokens, 1.0, 1.0)
    trainer = Trainer(policy, config.algorithm.build(), optimizer, options)
    engine = HFEngine(policy)
    trainer.update(_batch(rows=2, width=64), 0)
    peaks = {}
    width = config.env.max_context_tokens or 0
    batch = _batch(config.optimizer.microbatch_tokens // width, width)
    with policy.trunk.keeping():
        resident.forget_peak()
        _play(engine, config)
        peaks["sampling"] = resident.read("VmHWM")
        resident.forget_peak()
        trainer.update(batch, 0)
        peaks["training"] = resident.read("VmHWM")
    return peaks


def _play(engine: HFEngine, config: RunConfig) -> None:
    """All episodes at once, each exactly as long as it may be."""
    tokens, turns = config.engine.options.max_tokens, config.env.max_turns
    seen = config.env.max_observation_tokens
    prompt = (config.env.max_context_tokens or 0) - turns * tokens - (turns - 1) * seen
    rows, size = memory.rows(config), config.rollout.group_size
    sampling = Sampling(max_tokens=tokens, temperature=1.0, stop=(), seed=0)
    session = engine.open([list(range(2, 2 + prompt))] * (rows // size), size, sampling)
    session.turn(dict.fromkeys(range(rows), ()))
    for _ in range(turns - 1):
        session.turn({row: list(range(2, 2 + seen)) for row in range(rows)})


def _batch(rows: int, width: int) -> Batch:
    """One group of full rows; four tokens of ten are actions, enough for a chunk of logits."""
    ids = torch.arange(width).remainder(1000).repeat(rows, 1) + 2
    actions = (torch.arange(width) % 10 >= 6).repeat(rows, 1)
    return Batch(
        input_ids=ids,
        attention_mask=torch.ones_like(ids, dtype=torch.bool),
        action_mask=actions,
        turn_ids=torch.where(actions, 0, -1),
        old_logprobs=torch.full(ids.shape, -5.0),
        rewards=(torch.arange(rows) % 2).float()[:, None],
        group_ids=torch.zeros(rows, dtype=torch.int64),
        strata=torch.zeros(rows, dtype=torch.int64),
    )


if __name__ == "__main__":
    main()
