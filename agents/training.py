"""A training run: warm start, reinforcement learning, evaluation before and after."""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from retrieval.errors import InputError, RetrievalError

from . import command_line, metrics, processes
from .algorithms import sft
from .assembly import Parts
from .batching import to_batch
from .correction import correct
from .engine import Sampling
from .evaluation import batch_metrics
from .exchange import gather_trajectories
from .held_out import compare, evaluate_once, evaluation_file
from .interruption import Interrupts
from .live_view import LiveView
from .playing import STOP
from .progress import progress_bar
from .repetition import repeat_rate
from .rollback import Guard
from .rollout import demonstrate, usable
from .seeding import Draw, derive
from .starting import Start
from .steps import run_steps
from .token_transcripts import TokenTranscripts, choose, place
from .trainer import StepOptions, Trainer
from .types import Batch, Trajectory
from .wandb_run import WandbRun
from .writing import clear_scratch, writing_to


def train(
    parts: Parts, start: Start, command: str, interrupts: Interrupts | None = None
) -> dict[str, Any] | None:
    """Run to the end; a run that has ended already is left as it is.

    Args:
        parts: The run.
        start: Where it begins.
        command: For the summary.
        interrupts: Entered by the caller, if signals are to be handled.

    Returns:
        What summary.json holds: `compare`, the seconds this command took, and the command. None if
        the run does not evaluate, and in every process but the first.

    Raises:
        CollapseError: The guard gave up.
        RetrievalError: Retrieval failed in every episode of a step.
        WriteError: The run's folder cannot be written to.
    """
    began = time.monotonic()
    config, step = parts.config, start.step
    file = parts.folder / "summary.json"
    _check_agreement(step)
    with processes.together(), writing_to(parts.folder):
        if processes.rank() == 0:
            clear_scratch(parts.folder)
    if step is None:
        warm_start(parts)
        step = 0
        start.saver.save(0)
    before = evaluate_once(parts, "before")
    if step < config.run.steps:
        # A run that was extended had ended before.
        with processes.together(), writing_to(parts.folder):
            if processes.rank() == 0:
                for stale in (file, evaluation_file(parts, "after")):
                    stale.unlink(missing_ok=True)
        _reinforce(parts, start, step, interrupts or Interrupts())
    after = evaluate_once(parts, "after")
    with processes.together():
        if before is None or after is None or processes.rank() > 0:
            return None
        if not file.exists():
            told = {"seconds": round(time.monotonic() - began, 1), "command": command}
            content = compare(before, after) | told
            with writing_to(parts.folder):
                metrics.write_json(file, content)
        summary: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return summary


def _check_agreement(step: int | None) -> None:
    """All processes must go on from the same step."""
    found = {step.decode() for step in processes.gather(str(step).encode())}
    with processes.together():
        if len(found) > 1:
            raise InputError(
                f"--resume: the processes found checkpoints of steps {', '.join(sorted(found))}; "
                "the run folder must lie on a file system that all machines share"
            )


def warm_start(parts: Parts) -> None:
    """Clone demonstrations, a share of which stop one hop too early."""
    config = parts.config
    options = config.warm_start
    if not options.steps:
        return
    optimizer = torch.optim.AdamW(
        parts.policy.trainable_parameters(), lr=options.lr, weight_decay=0.0
    )
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, options.steps)
    one_step = StepOptions(1, 1, config.optimizer.microbatch_tokens, 1.0, temperature=1.0)
    trainer = Trainer(parts.policy, sft.build(sft.Config()), optimizer, one_step)
    env = parts.rollout.make_env()
    with progress_bar(options.steps, "warm start", "step") as bar:
        for step in range(options.steps):
            random = np.random.default_rng(derive(config.run.seed, Draw.WARM_START, step))
            picks = random.integers(len(parts.questions), size=options.episodes_per_step)
            early = random.random(options.episodes_per_step) < options.stop_early_share
            own = processes.share(len(picks))
            episodes = []
            with processes.together():
                for index, stop in zip(picks[own], early[own], strict=True):
                    question = parts.questions[int(index)]
                    texts = parts.demonstrate(question, bool(stop))
                    episodes.append(demonstrate(question, texts, env, parts.rollout.framing))
            kept = _kept(parts, gather_trajectories(episodes), f"warm start, step {step + 1}")
            result = trainer.update(to_batch(kept, parts.policy.pad_id), step)
            schedule.step()
            bar.set_postfix(loss=f"{result['policy_loss']:.3f}")
            bar.update()


def _reinforce(parts: Parts, start: Start, first: int, interrupts: Interrupts) -> None:
    config, saver = parts.config, start.saver
    view = LiveView(config.run.steps, sys.stdout)
    with processes.together():
        log = _open_log(parts, first + 1) if processes.rank() == 0 else None

    def take(step: int) -> dict[str, float | None]:
        with parts.policy.trunk.keeping():
            line = train_step(parts, start.trainer, log, step, interrupts)
        if log is not None:
            view.step(step, line)
            if line["infra_errors"]:
                tqdm.write(f"  {line['infra_errors']} episodes lost to retrieval{_cause(parts)}")
        return line

    try:
        guard = Guard(config.guard, saver, log, metrics.past_lines(parts.folder))
        with view.bar(first):
            run_steps(take, first, config.run, saver, guard, interrupts)
    finally:
        if log is not None:
            log.close()


def _open_log(parts: Parts, first_step: int) -> metrics.RunLog:
    wandb, project = None, parts.config.run.wandb
    if project is not None:
        shown = command_line.plain(command_line.sections(parts.config))
        wandb = WandbRun(project, parts.folder, shown)
    return metrics.RunLog(parts.folder, first_step, wandb)


def train_step(
    parts: Parts,
    trainer: Trainer,
    log: metrics.RunLog | None,
    step: int,
    interrupts: Interrupts,
) -> dict[str, float | None]:
    """Play one rollout batch, train on it, write it down where there is a log."""
    config = parts.config
    started = time.monotonic()
    with interrupts.at_once():
        trajectories, chosen = play_step(parts, step)
        kept = _kept(parts, chosen, f"step {step}")
    played = time.monotonic()
    batch, mismatch = _corrected(parts, trainer, to_batch(kept, parts.policy.pad_id))
    watched = choose(len(kept), config.run.token_transcripts, config.run.seed, step)
    transcripts = TokenTranscripts(watched)
    seed = derive(config.run.seed, Draw.MINIBATCHES, step)
    update = trainer.update(batch, seed, transcripts.watch)
    ended = time.monotonic()
    working = usable(trajectories)
    generated = sum(t.num_action_tokens for t in working)
    line: dict[str, float | None] = {
        # Absent without a critic, without a normaliser, and where the engine is exact.
        "value_loss": None,
        "clip_norm": None,
        "sampler_mismatch": None,
        "importance_capped": None,
        **batch_metrics(working),
        **update,
        "repeat_rate": repeat_rate(turn.action_ids for t in working for turn in t.turns),
        "episodes": len(trajectories),
        "trained_episodes": len(kept),
        **mismatch,
        "infra_errors": len(trajectories) - len(working),
        "dropped_episodes": len(working) - len(kept),
        "generated_tokens_per_s": generated / (played - started),
        "trained_tokens_per_s": update["trained_tokens"] / (ended - played),
        "seconds": ended - started,
    }
    places = [place(kept[row], trajectories) for row in watched]
    # In every process: its forward pass is shared out too.
    tokens = [
        {"row": row} | told for row, told in zip(places, transcripts.lines(trainer), strict=True)
    ]
    with processes.together():
        if log is not None:
            log.write(step, line, trajectories, tokens)
    return line


def _corrected(parts: Parts, trainer: Trainer, batch: Batch) -> tuple[Batch, dict[str, float]]:
    """What to train on, and how far the engine was from the policy if it is not exactly that."""
    cap = parts.rollout.engine.importance_cap
    if cap is None:
        return batch, {}
    batch = batch.to(parts.policy.device)
    corrected = correct(batch, trainer.logprobs(batch), cap)
    return corrected.batch, corrected.metrics


def _kept(parts: Parts, trajectories: Sequence[Trajectory], where: str) -> list[Trajectory]:
    """Those fit for training.

    Raises:
        RetrievalError: None is.
    """
    kept = usable(trajectories)
    with processes.together():
        if not kept:
            raise RetrievalError(
                f"{where}: retrieval failed in every episode; check the retriever{_cause(parts)}"
            )
    return kept


def _cause(parts: Parts) -> str:
    """How retrieval failed last, if it was in this process."""
    error = parts.rollout.retriever.last_error
    return "" if error is None else f": {error}"


def play_step(parts: Parts, step: int) -> tuple[list[Trajectory], list[Trajectory]]:
    """Play the rollout batch of a step (from 1).

    Returns:
        All episodes played, and those of the groups that the sampler keeps; all if it keeps none.
    """
    wanted, sampler = parts.config.rollout.questions_per_step, parts.sampler
    played: list[Trajectory] = []
    chosen: list[list[Trajectory]] = []
    for attempt in range(sampler.rounds):
        if len(chosen) == wanted:
            break
        indices = sampler.draw(wanted - len(chosen), step)
        groups = _play_round(parts, indices, step, attempt)
        returns = [[t.reward for t in usable(group)] for group in groups]
        played += [t for group in groups for t in group]
        keep = sampler.observe(indices, returns)
        chosen += [group for group, good in zip(groups, keep, strict=True) if good]
    return played, [t for group in chosen for t in group] or played


def _play_round(
    parts: Parts, indices: Sequence[int], step: int, attempt: int
) -> list[list[Trajectory]]:
    """One group of episodes per question; the samples depend on the arguments alone.

    Each process plays its share of the groups and is told of the others.
    """
    config = parts.config
    size = config.rollout.group_size
    path = (step, attempt) if attempt else (step,)
    sampling = Sampling(
        max_tokens=config.engine.options.max_tokens,
        temperature=config.rollout.temperature,
        stop=STOP,
        seed=derive(config.run.seed, Draw.SAMPLING, *path),
    )
    own = processes.share(len(indices))
    questions = [parts.questions[index] for index in indices[own]]
    # No round has more groups than questions_per_step: no two groups of a run share an id.
    place = (step - 1) * parts.sampler.rounds + attempt
    first = place * config.rollout.questions_per_step + own.start
    with (
        processes.together(),
        progress_bar(len(questions) * size, f"step {step}", "episode") as bar,
    ):
        mine = parts.rollout.play(questions, size, sampling, first, bar.update)
    played = gather_trajectories(mine)
    return [played[start : start + size] for start in range(0, len(played), size)]
