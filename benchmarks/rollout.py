"""Episodes per second: the project's engine against plain `generate` that re-reads every context.

    python -m benchmarks.rollout [--questions 8] [--group-size 8] [--turns 3] [--repeats 3]

Both sides drive the same policy (the embedded model with fresh adapters) through the same turns:
each samples a fixed number of tokens, then reads the observation that the expert's next query
really brings from the atlas world. The baseline calls `model.generate` on the whole context of
every episode each turn, as most published search-agent code does. Sides alternate in one run.
"""

import argparse
import statistics
import time
from collections.abc import Sequence

import torch
from tqdm import tqdm

from agents.assembly import build_policy
from agents.config import ModelOptions
from agents.engine import Sampling
from agents.generation.hf import HFEngine
from agents.policy import SearchPolicy
from benchmarks.speed.task import Shape, build_task


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Rollout engine against plain generate.")
    parser.add_argument("--questions", type=int, default=8)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=32, help="Sampled tokens per turn.")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    policy = build_policy(ModelOptions(name="embedded", lora_last_layers=10), seed=0)
    # A fixed amount of work on both sides: no turn may end early.
    policy.end_ids = frozenset()
    shape = Shape(args.questions, args.group_size, args.turns, args.tokens)
    task = build_task(shape, policy.tokenizer)
    prompts, observations = task.prompts, task.observation_ids
    sides = {"engine": _engine, "generate": _generate}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    rounds = args.repeats + 1  # the first warms memory up and does not count
    with tqdm(total=rounds * len(sides), unit="rollout", leave=False) as bar:
        for repeat in range(rounds):
            for name, play in sides.items():
                started = time.perf_counter()
                play(policy, prompts, observations, args.group_size, args.tokens)
                if repeat:
                    seconds[name].append(time.perf_counter() - started)
                bar.update()
    episodes = args.questions * args.group_size
    print(
        f"{episodes} episodes ({args.questions} questions x {args.group_size}), {args.turns} turns "
        f"of {args.tokens} tokens, {args.repeats} repeats, {torch.get_num_threads()} threads"
    )
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, values in seconds.items():
        print(
            f"{name:>9} {episodes / medians[name]:6.2f} episodes/s  median {medians[name]:6.1f} s  "
            f"(min {min(values):.1f}, max {max(values):.1f})"
        )
    print(f"    ratio {medians['generate'] / medians['engine']:6.2f}")


def _engine(
    policy: SearchPolicy,
    prompts: Sequence[Sequence[int]],
    observations: Sequence[Sequence[Sequence[int]]],
    group_size: int,
    tokens: int,
) -> None:
    rows = range(len(prompts) * group_size)
    sampling = Sampling(max_tokens=tokens, temperature=1.0, stop=(), seed=0)
    session = HFEngine(policy).open(prompts, group_size, sampling)
    session.turn(dict.fromkeys(rows, ()))
    for turn in range(len(observations[0])):
        session.turn({row: observations[row // group_size][turn] for row in rows})


@torch.inference_mode()
def _generate(
    policy: SearchPolicy,
    prompts: Sequence[Sequence[int]],
    observations: Sequence[Sequence[Sequence[int]]],
    group_size: int,
    tokens: int,
) -> None:
    contexts = [list(prompt) for prompt in prompts for _ in range(group_size)]
    for turn in range(len(observations[0]) + 1):
        width = max(map(len, contexts))
        ids = torch.tensor([[policy.pad_id] * (width - len(c)) + c for c in contexts])
        mask = torch.tensor([[0] * (width - len(c)) + [1] * len(c) for c in contexts])
        output = policy.model.generate(
            input_ids=ids.to(policy.device),
            attention_mask=mask.to(policy.device),
            do_sample=True,
            top_k=0,
            top_p=1.0,
            min_new_tokens=tokens,
            max_new_tokens=tokens,
            pad_token_id=policy.pad_id,
        )
        for row, context in enumerate(contexts):
            context.extend(output[row, width:].tolist())
            if turn < len(observations[0]):
                context.extend(observations[row // group_size][turn])


if __name__ == "__main__":
    main()
