"""What SORL costs: seconds per optimiser step of `so_ppo` over those of `turn_ppo`.

    python -m benchmarks.normaliser [--episodes 16] [--repeats 5]

Both sides update the embedded model's adapters and critic on the same demonstrations of the atlas
world, once with the log-probabilities of the policy itself (no token is clipped) and once with
perturbed ones (tokens in every micro-batch are). The sides alternate in one run.
"""

import argparse
import statistics
import time
from dataclasses import replace

import torch
from tqdm import tqdm

from agents.algorithms import so_ppo, turn_ppo
from agents.assembly import build_policy
from agents.batching import to_batch
from agents.config import ModelOptions
from agents.critic import Critic
from agents.policy import LoraOptions, SearchPolicy
from agents.prompts import build_framing
from agents.rollout import demonstrate
from agents.trainer import StepOptions, Trainer
from agents.types import Batch
from envs.datasets import atlas
from envs.registration import make_env

LAYERS = 10  # adapted, as in configs/quickstart.yaml
SHIFT = 0.5  # nats by which the old log-probabilities are moved: ratios of 1.65 and 0.61


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="so_ppo against turn_ppo.")
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    model = ModelOptions(name="embedded", dtype=args.dtype, lora_last_layers=LAYERS)
    policy = build_policy(model, seed=0)
    modules = model.lora_target_modules
    critic = Critic(policy, LoraOptions(model.lora_rank, model.lora_alpha, modules, LAYERS))
    on_policy = _batch(policy, args.episodes)
    # Up on every other trajectory and down on the rest: a turn's mean does not average it out.
    signs = 1 - 2 * (torch.arange(len(on_policy)) // 2 % 2)[:, None]
    moved = on_policy.old_logprobs + SHIFT * signs * on_policy.action_mask
    batches = {"none clipped": on_policy, "clipped": replace(on_policy, old_logprobs=moved)}
    algorithms = {
        "turn_ppo": turn_ppo.build(turn_ppo.Config()),
        "so_ppo": so_ppo.build(so_ppo.Config()),
    }
    rounds = args.repeats + 1  # the first warms memory up and does not count
    tokens = int(on_policy.attention_mask.sum())
    print(f"{args.episodes} episodes, {tokens} tokens, {args.dtype}, {args.repeats} repeats")
    with tqdm(total=rounds * len(algorithms) * len(batches), unit="step", leave=False) as bar:
        for case, batch in batches.items():
            seconds: dict[str, list[float]] = {name: [] for name in algorithms}
            for repeat in range(rounds):
                for name, algorithm in algorithms.items():
                    groups = [{"params": policy.trainable_parameters()}]
                    groups.append({"params": critic.parameters()})
                    optimizer = torch.optim.SGD(groups, lr=0.0)
                    options = StepOptions(1, 1, 2048, 1.0, 1.0)
                    trainer = Trainer(policy, algorithm, optimizer, options, None, critic)
                    started = time.perf_counter()
                    metrics = trainer.update(batch, 0)
                    if repeat:
                        seconds[name].append(time.perf_counter() - started)
                    bar.update()
            medians = {name: statistics.median(values) for name, values in seconds.items()}
            base, so = medians["turn_ppo"], medians["so_ppo"]
            tqdm.write(
                f"{case:>13}: turn_ppo {base:6.2f} s  so_ppo {so:6.2f} s  ratio {so / base:5.2f}  "
                f"clip fraction {metrics['clip_fraction']:.3f}"
            )


def _batch(policy: SearchPolicy, count: int) -> Batch:
    """Demonstrations with the policy's own log-probabilities, half of them rewarded."""
    world = atlas.build(atlas.Config(hops=(2,)))
    assert world.demonstrate is not None
    env = make_env(dataset=world, top_k=1, max_turns=4)
    framing = build_framing(policy.tokenizer, "minimal", "inline", "system")
    shown = [
        demonstrate(question, world.demonstrate(question, index % 2 == 1), env, framing)
        for index, question in enumerate(world.questions[:count])
    ]
    batch = to_batch(shown, policy.pad_id)
    with torch.no_grad():
        parts = [batch.select(torch.tensor([row])) for row in range(count)]
        old = torch.zeros(batch.input_ids.shape)
        for row, part in enumerate(parts):
            values, _ = policy.logprobs(part.input_ids, part.action_mask, 1.0)
            old[row, : values.shape[1]] = values[0]
    return replace(batch, old_logprobs=old)


if __name__ == "__main__":
    main()
