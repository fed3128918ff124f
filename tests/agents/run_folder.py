"""Run folders as train.py leaves them: real episodes, real tokens, a trainer's own numbers."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from agents.batching import to_batch
from agents.metrics import RunLog, write_json
from agents.rollout import demonstrate
from agents.token_transcripts import TokenTranscripts
from agents.types import Trajectory
from tests.agents import builds
from tests.agents.results_folder import HOSTILE
from tests.agents.training_parts import GRPO, still

CONFIG = """\
run: {dir: runs/x, seed: 0, steps: 9, token_transcripts: 6}
model: {name: tiny}
dataset: {name: atlas}
algorithm: {name: so_ppo}
"""
SUMMARY = {
    "n": 50,
    "em_before": 0.25,
    "em_after": 0.5,
    "difference": {"mean": 0.25, "low": 0.125, "high": 0.375},
    "searches_before": 1.2,
    "searches_after": 2.0,
    "invalid_rate_before": 0.1,
    "invalid_rate_after": 0.0,
    "seconds": 12.5,
    "command": "python train.py --config configs/tiny.yaml",
}
EVENT = {"step": 3, "kind": "entropy", "value": 0.01, "threshold": 0.1, "action": HOSTILE}


@cache
def episodes() -> tuple[Trajectory, ...]:
    """Of each of two questions: right with a search, wrong, and one who writes hostile markup."""
    policy = builds.build_policy()
    rollout = builds.build_rollout(builds.ScriptedEngine(lambda row, turn: []), policy)
    made = []
    for group, question in enumerate(builds.world().questions[:2]):
        expert = builds.world().demonstrate
        assert expert is not None
        for texts in (
            expert(question, False),
            ("<answer> nobody </answer>",),
            (HOSTILE, f"<search>{HOSTILE}</search>", f"<answer>{HOSTILE}</answer>"),
        ):
            env = rollout.make_env()
            made.append(demonstrate(question, texts, env, rollout.framing, group))
    return tuple(made)


@cache
def tokens(kept: int) -> tuple[dict[str, Any], ...]:
    """Token transcripts of the first so many episodes, from a trainer that has taken a step."""
    policy = builds.build_policy(b_std=0.1)
    batch = to_batch(episodes(), policy.pad_id)
    with torch.no_grad():
        old, _ = policy.logprobs(batch.input_ids, batch.action_mask, 0.8)
    trainer = still(policy, GRPO)
    trainer.optimizer.param_groups[0]["lr"] = 0.05
    transcripts = TokenTranscripts(range(kept))
    trainer.update(replace(batch, old_logprobs=old), 0, transcripts.watch)
    return tuple({"row": row} | line for row, line in enumerate(transcripts.lines(trainer)))


def write(
    folder: Path,
    steps: int = 5,
    kept: int = 2,
    played: Sequence[Trajectory] | None = None,
    **metrics: Any,
) -> Path:
    """A run's folder; `metrics` are more numbers of every step."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(CONFIG)
    log = RunLog(folder, 1)
    for step in range(1, steps + 1):
        line = {
            "reward_mean": step / 10,
            "em": step / 20,
            "clip_fraction": 0.01 * step,
            "clip_fraction_turns": 0.02 * step,
            "grad_norm": 10.0 ** (step % 4 - 2),
            "clip_norm": 0.5,
            "kl_ref": None if step == 2 else 0.001 * step,
            "value_loss": None,
            "seconds": 2.0,
            **metrics,
        }
        log.write(step, line, played or episodes(), tokens(kept) if kept else ())
    log.close()
    write_json(folder / "summary.json", SUMMARY)
    (folder / "events.jsonl").write_text(json.dumps(EVENT) + "\n")
    return folder
