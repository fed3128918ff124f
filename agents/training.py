"""A training run: warm start, reinforcement learning, evaluation before and after."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from retrieval.errors import InputError, RetrievalError

from . import metrics
from .algorithms import sft
from .assembly import STOP, Parts
from .batching import to_batch
from .checkpoint import latest_checkpoint, load_adapter, load_optimizer, save_checkpoint
from .config import RunConfig
from .engine import Sampling
from .evaluation import Prediction, batch_metrics, evaluate
from .policy import SearchPolicy
from .rollout import demonstrate, usable
from .seeding import Draw, derive, question_index
from .statistics import paired_bootstrap
from .trainer import StepOptions, Trainer
from .types import Trajectory


@dataclass(frozen=True, slots=True)
class Start:
    """Where a run begins, or goes on.

    Attributes:
        optimizer: Of reinforcement learning.
        step: Steps done; None before the warm start.
    """

    optimizer: torch.optim.Optimizer
    step: int | None


def begin(parts: Parts) -> Start:
    """A fresh start."""
    options = parts.config.optimizer
    return Start(_adamw(parts.policy, options.lr, options.weight_decay), None)


def resume(parts: Parts) -> Start:
    """Go on from the newest checkpoint of the run's folder; nothing is written.

    Raises:
        InputError: The checkpoint does not fit the configuration, or the questions are not those
            that the run was evaluated on before training.
    """
    start = begin(parts)
    checkpoint = latest_checkpoint(parts.folder)
    if checkpoint is None:
        return start
    step = load_adapter(parts.policy, checkpoint)
    load_optimizer(start.optimizer, checkpoint)
    if step and parts.held_out and _evaluated(parts, "before") is None:
        raise InputError(
            "evaluation: the run has not been evaluated on these questions before training; leave "
            "the evaluation and dataset sections as they were"
        )
    return Start(start.optimizer, step)


def train(parts: Parts, start: Start, command: str) -> dict[str, Any] | None:
    """Run to the end; a run that has ended already is left as it is.

    Returns:
        What summary.json holds: `compare`, the seconds this command took, and the command. None if
        the run does not evaluate.
    """
    began = time.monotonic()
    config, step = parts.config, start.step
    file = parts.folder / "summary.json"
    if step is None:
        warm_start(parts)
        step = 0
        save_checkpoint(_checkpoints(parts), parts.policy, start.optimizer, 0, config.model.name)
    before = _evaluate(parts, "before")
    if step < config.run.steps:
        # A run that was extended had ended before.
        for stale in (file, _evaluation_file(parts, "after")):
            stale.unlink(missing_ok=True)
        _reinforce(parts, start.optimizer, step)
    after = _evaluate(parts, "after")
    if before is None or after is None:
        return None
    if not file.exists():
        seconds = round(time.monotonic() - began, 1)
        metrics.write_json(file, compare(before, after) | {"seconds": seconds, "command": command})
    summary: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return summary


def warm_start(parts: Parts) -> None:
    """Clone demonstrations, a share of which stop one hop too early."""
    config = parts.config
    options = config.warm_start
    if not options.steps:
        return
    optimizer = _adamw(parts.policy, options.lr, 0.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, options.steps)
    one_step = StepOptions(1, 1, config.optimizer.microbatch_tokens, 1.0, temperature=1.0)
    trainer = Trainer(parts.policy, sft.build(sft.Config()), optimizer, one_step)
    env = parts.rollout.make_env()
    with _progress(options.steps, "warm start", "step") as bar:
        for step in range(options.steps):
            random = np.random.default_rng(derive(config.run.seed, Draw.WARM_START, step))
            picks = random.integers(len(parts.questions), size=options.episodes_per_step)
            early = random.random(options.episodes_per_step) < options.stop_early_share
            episodes = []
            for index, stop in zip(picks, early, strict=True):
                question = parts.questions[int(index)]
                texts = parts.demonstrate(question, bool(stop))
                episodes.append(demonstrate(question, texts, env, parts.rollout.framing))
            kept = _kept(episodes, f"warm start, step {step + 1}")
            result = trainer.update(to_batch(kept, parts.policy.pad_id), step)
            schedule.step()
            bar.set_postfix(loss=f"{result['policy_loss']:.3f}")
            bar.update()


def _reinforce(parts: Parts, optimizer: torch.optim.Optimizer, first: int) -> None:
    config = parts.config
    trainer = Trainer(parts.policy, parts.algorithm, optimizer, _step_options(config))
    log = metrics.RunLog(parts.folder, first + 1)
    try:
        for step in range(first + 1, config.run.steps + 1):
            line = train_step(parts, trainer, log, step)
            tqdm.write(_describe(step, config.run.steps, line))
            if step % config.run.save_every == 0 or step == config.run.steps:
                save_checkpoint(
                    _checkpoints(parts), parts.policy, optimizer, step, config.model.name
                )
    finally:
        log.close()


def train_step(
    parts: Parts, trainer: Trainer, log: metrics.RunLog, step: int
) -> dict[str, float | None]:
    """Play one rollout batch, train on it, write it down."""
    config = parts.config
    started = time.monotonic()
    trajectories = play_step(parts, step)
    kept = _kept(trajectories, f"step {step}")
    played = time.monotonic()
    batch = to_batch(kept, parts.policy.pad_id)
    update = trainer.update(batch, derive(config.run.seed, Draw.MINIBATCHES, step))
    ended = time.monotonic()
    line: dict[str, float | None] = {
        **batch_metrics(kept),
        **update,
        "infra_errors": len(trajectories) - len(kept),
        # No critic and no gradient normaliser in this run.
        "value_loss": None,
        "clip_norm": None,
        "grad_scale": 1.0,
        "generated_tokens_per_s": sum(t.num_action_tokens for t in kept) / (played - started),
        "trained_tokens_per_s": update["trained_tokens"] / (ended - played),
        "seconds": ended - started,
    }
    log.write(step, line, trajectories)
    return line


def _kept(trajectories: Sequence[Trajectory], where: str) -> list[Trajectory]:
    """Those fit for training.

    Raises:
        RetrievalError: None is.
    """
    kept = usable(trajectories)
    if not kept:
        raise RetrievalError(f"{where}: retrieval failed in every episode; check the retriever")
    return kept


def play_step(parts: Parts, step: int) -> list[Trajectory]:
    """Play the rollout batch of a step (from 1); its questions and samples depend on it alone."""
    config = parts.config
    per_step = config.rollout.questions_per_step
    first_draw = (step - 1) * per_step
    total, seed = len(parts.questions), config.run.seed
    questions = [
        parts.questions[question_index(first_draw + i, total, seed)] for i in range(per_step)
    ]
    sampling = Sampling(
        max_tokens=config.engine.options.max_tokens,
        temperature=config.rollout.temperature,
        stop=STOP,
        seed=derive(seed, Draw.SAMPLING, step),
    )
    group_size = config.rollout.group_size
    with _progress(per_step * group_size, f"step {step}", "episode") as bar:
        return parts.rollout.play(questions, group_size, sampling, first_draw, bar.update)


def _evaluate(parts: Parts, when: str) -> list[Prediction] | None:
    """Evaluate, or read what this run has already evaluated."""
    if not parts.held_out:
        return None
    if (known := _evaluated(parts, when)) is not None:
        return known
    max_tokens = parts.config.engine.options.max_tokens
    with _progress(len(parts.held_out), f"evaluation {when}", "question") as bar:
        result = evaluate(parts.rollout, parts.held_out, max_tokens, STOP, bar.update)
    file = _evaluation_file(parts, when)
    file.parent.mkdir(exist_ok=True)
    metrics.write_lines(file, [prediction.to_json() for prediction in result])
    return result


def _evaluated(parts: Parts, when: str) -> list[Prediction] | None:
    """The run's earlier evaluation, if it was on the same questions."""
    file = _evaluation_file(parts, when)
    if not file.exists():
        return None
    known = [Prediction(**row) for row in metrics.read_lines(file)]
    wanted = [question.id for question in parts.held_out]
    return known if [prediction.id for prediction in known] == wanted else None


def _evaluation_file(parts: Parts, when: str) -> Path:
    return parts.folder / "evaluation" / f"{when}.jsonl"


def compare(before: Sequence[Prediction], after: Sequence[Prediction]) -> dict[str, Any]:
    """The same questions before and after, paired.

    Returns:
        n, em_before, em_after (means of the headline metric), difference {mean, low, high}, and the
        searches and invalid rates.

    Raises:
        RetrievalError: Not one question whose retrieval worked both times.
    """
    pairs = [(b, a) for b, a in zip(before, after, strict=True) if not (b.failed or a.failed)]
    if not pairs:
        raise RetrievalError("evaluation: retrieval failed in every episode; check the retriever")
    old, new = zip(*pairs, strict=True)
    return {
        "n": len(pairs),
        "em_before": float(np.mean([p.score for p in old])),
        "em_after": float(np.mean([p.score for p in new])),
        "difference": paired_bootstrap([p.score for p in new], [p.score for p in old]),
        "searches_before": float(np.mean([p.searches for p in old])),
        "searches_after": float(np.mean([p.searches for p in new])),
        "invalid_rate_before": sum(p.invalid for p in old) / sum(p.turns for p in old),
        "invalid_rate_after": sum(p.invalid for p in new) / sum(p.turns for p in new),
    }


def _step_options(config: RunConfig) -> StepOptions:
    options = config.optimizer
    return StepOptions(
        epochs=options.epochs,
        minibatches=options.minibatches,
        microbatch_tokens=options.microbatch_tokens,
        max_grad_norm=options.max_grad_norm,
        temperature=config.rollout.temperature,
    )


def _adamw(policy: SearchPolicy, lr: float, weight_decay: float) -> torch.optim.AdamW:
    return torch.optim.AdamW(policy.trainable_parameters(), lr=lr, weight_decay=weight_decay)


def _checkpoints(parts: Parts) -> Path:
    return parts.folder / "checkpoints"


def _describe(step: int, steps: int, line: dict[str, float | None]) -> str:
    shown = ("reward_mean", "em", "searches_mean", "invalid_rate", "kl_old", "seconds")
    return f"step {step}/{steps}  " + "  ".join(f"{key} {line[key]:.3g}" for key in shown)


@contextmanager
def _progress(total: int, name: str, unit: str) -> Iterator[Any]:
    with tqdm(total=total, desc=name, unit=unit, dynamic_ncols=True, leave=False) as bar:
        yield bar
