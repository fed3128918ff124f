"""An evaluation: which agent, which questions, played, written down, and taken up again."""

import hashlib
import json
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from envs.shuffling import num_orders, shuffled
from envs.types import Dataset, Episode, Question, Reward, Step
from retrieval import plugins
from retrieval.errors import InputError

from . import command_line, metrics
from .assembly import build_corpus, build_dataset, open_retriever
from .checkpoint import latest_checkpoint
from .config import EVAL_LAYOUT
from .evaluation import Journal, Play, evaluate, summarize
from .greedy import Table, build_play
from .interactive import converse
from .methods import Setting
from .playing import PlayOptions
from .progress import progress_bar
from .report import write_report
from .writing import check_creatable, write_text

PRESETS = Path(__file__).parents[1] / "configs" / "presets"


@dataclass(frozen=True, slots=True)
class Contest:
    """An evaluation, ready to be played.

    Attributes:
        values: Section -> its options, as `command_line.parse` gives them.
        questions: To be played, in order.
        play: How.
        facts: What its summary says of it besides scores.
    """

    values: dict[str, Any]
    questions: Sequence[Question]
    play: Play
    facts: dict[str, Any]


def parse(argv: Sequence[str], parser: Any) -> tuple[dict[str, Any], Namespace, str | None]:
    """Read a command line, over the preset, over the agent's own run, over the method's defaults.

    Returns:
        Section -> options; the raw flags; and the preset's name with what was changed of it, None
        without a preset.
    """
    agent = command_line.peek(argv, "--agent", "embedded")
    preset = command_line.peek(argv, "--preset")
    knobs = {} if preset is None else read_preset(preset)
    given_before = _over(agent_defaults(str(agent)), knobs)
    method = command_line.chosen_names(EVAL_LAYOUT, argv, given_before)["method"]
    defaults = _over(_method_defaults(method), given_before)
    values, flags = command_line.parse(parser, EVAL_LAYOUT, argv, defaults)
    for name, given in (("agent", agent), ("preset", preset)):
        if getattr(flags, name) != given:
            raise InputError(f"{name}: give --{name} on the command line, not in a file")
    changed = sorted(_changed(values, knobs))
    named = preset if preset is None or not changed else f"{preset}, but {', '.join(changed)}"
    return values, flags, named


def read_preset(name: str) -> dict[str, Any]:
    """The sections of a preset of `configs/presets`.

    Raises:
        InputError: There is none of that name.
    """
    known = sorted(file.stem for file in PRESETS.glob("*.yaml"))
    if name not in known:
        raise InputError(f"--preset: unknown name {name!r}; choose one of {', '.join(known)}")
    return command_line.read_yaml(PRESETS / f"{name}.yaml", EVAL_LAYOUT)


def _method_defaults(name: str) -> dict[str, Any]:
    return dict(getattr(plugins.load("agents.baselines", name), "DEFAULTS", {}))


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    return {key: {**below.get(key, {}), **above.get(key, {})} for key in {**below, **above}}


def _changed(values: Mapping[str, Any], knobs: Mapping[str, Any]) -> list[str]:
    """The knobs of a preset that the command line has turned."""
    found = command_line.plain(values)
    return [
        f"{section}.{key}={found[section][key]}"
        for section, keys in knobs.items()
        for key, value in keys.items()
        if found[section][key] != value
    ]


def agent_defaults(name: str) -> dict[str, Any]:
    """The sections below what the command line says: those of the agent's own run.

    Args:
        name: A run folder, one of its checkpoints, or the name of an untrained model.

    Raises:
        InputError: A run folder without a checkpoint, or a path to nothing.
    """
    folder = Path(name)
    # A hub name looks like a path too; but its owner is no folder here.
    if folder.parent.name and folder.parent.exists() and not folder.exists():
        raise InputError(
            f"--agent {name}: no such folder; give a run, one of its checkpoints, or a model"
        )
    run = _run_of(folder)
    if run is None:
        return {"model": {"name": name}}
    checkpoint = folder if folder != run else latest_checkpoint(run)
    if checkpoint is None:
        raise InputError(f"--agent {name}: this run has no checkpoint yet; go on training it")
    sections = command_line.read_yaml(run / "config.yaml", EVAL_LAYOUT)
    return sections | {"model": {**sections.get("model", {}), "adapter": str(checkpoint)}}


def _run_of(folder: Path) -> Path | None:
    """The run folder that an agent's name means; None for an untrained model."""
    run = folder.parent.parent if folder.parent.name == "checkpoints" else folder
    return run if (run / "config.yaml").exists() else None


def _trained_with(agent: str) -> str | None:
    run = _run_of(Path(agent))
    if run is None:
        return None
    sections = command_line.read_yaml(run / "config.yaml", EVAL_LAYOUT)
    return str(sections.get("algorithm", {}).get("name"))


def build(
    values: dict[str, Any], flags: Namespace, preset: str | None, argv: Sequence[str]
) -> Contest:
    """Build everything; bad input is found here, before anything is written."""
    dataset = build_dataset(values["dataset"])
    dataset = replace(dataset, questions=chosen_questions(dataset, flags))
    play, fingerprint = _build_play(values, dataset, flags.agent)
    facts = {
        "agent": flags.agent,
        "method": values["method"].name,
        "preset": preset,
        "retriever": values["retriever"].name,
        "corpus_fingerprint": fingerprint,
        "orders": flags.orders,
        "abstain": flags.abstain,
        "seed": 0,
        "command": shlex.join(["python", "eval.py", *argv]),
    }
    return Contest(values, dataset.questions, play, facts)


def _build_play(
    values: dict[str, Any], dataset: Dataset, agent: str, reward: Reward | None = None
) -> tuple[Play, str]:
    """How the method plays, and the fingerprint of the corpus."""
    corpus = build_corpus(values["retriever"], dataset)
    setting = Setting(dataset, corpus, _trained_with(agent))
    method = values["method"].build(setting)
    retriever, fingerprint = open_retriever(values["retriever"], corpus)
    options = PlayOptions(values["env"], values["prompt"], values["engine"], reward)
    return build_play(method, Table(setting, retriever, options, values["model"])), fingerprint


def interact(values: dict[str, Any], agent: str) -> None:
    """Let a person ask in the terminal, and watch the turns."""
    show: Callable[[Step], None]  # of the question being played

    def watch(episode: Episode) -> float:
        # A reward is called after every turn; nobody knows what a typed answer is worth.
        show(episode.steps[-1])
        return 0.0

    dataset = build_dataset(values["dataset"])
    play, _ = _build_play(values, dataset, agent, watch)

    def play_one(question: Question, shown: Callable[[Step], None]) -> Episode:
        nonlocal show
        show = shown
        return play([question], lambda ended: None)[0].episode

    converse(play_one, sys.stdin, sys.stdout)


def chosen_questions(dataset: Dataset, flags: Namespace) -> tuple[Question, ...]:
    """The questions to be played: the first so many, each once per order of its options.

    Raises:
        InputError: None is left.
    """
    questions = list(dataset.questions)
    if flags.with_evidence:
        questions = [q for q in questions if q.supporting_titles or q.source_ids]
        if not questions:
            raise InputError("--with_evidence: no question of this dataset names its evidence")
    questions = questions[: flags.limit]
    if flags.abstain:
        questions = [replace(question, may_abstain=True) for question in questions]
    if flags.orders > 1:
        if not all(question.options for question in questions):
            raise InputError("--orders: only questions with options can be asked in several orders")
        questions = [
            shuffled(question, order)
            for question in questions
            for order in range(min(flags.orders, num_orders(question)))
        ]
    return tuple(questions)


def run(contest: Contest, out: Path) -> dict[str, Any]:
    """Play what is not played yet, and write the results.

    Raises:
        InputError: `out` holds an unfinished evaluation of something else, or cannot be written.
    """
    started = time.monotonic()
    try:
        journal = _open(contest, out)
        part = contest.values["engine"].options.max_episodes
        with progress_bar(len(contest.questions), "evaluation", "question") as bar:
            predictions = evaluate(contest.play, contest.questions, part, bar.update, journal)
        names = sorted({p.dataset for p in predictions})
        of_each = {n: summarize([p for p in predictions if p.dataset == n]) for n in names}
        summary = {
            **summarize(predictions),
            **({"datasets": of_each} if len(names) > 1 else {}),
            **contest.facts,
            "seconds": round(time.monotonic() - started, 1),
        }
        # In the order of the questions: equal evaluations give equal files.
        metrics.write_lines(out / "predictions.jsonl", [p.to_json() for p in predictions])
        metrics.write_json(out / "summary.json", summary)
        write_report(out)
        (out / _PLAN).unlink()
    except OSError as error:
        raise InputError(f"--out: cannot write {out}: {error.strerror}; choose another") from error
    return summary


def check_out(out: Path) -> None:
    """Whether an evaluation may be written there; cheap, before anything is built.

    Raises:
        InputError: It may not.
    """
    check_creatable("--out", out)
    if out.exists() and any(out.iterdir()) and not (out / _PLAN).exists():
        raise InputError(f"--out: {out} exists and is not empty; choose another folder")


# Stands in the folder of an evaluation until it is finished: what it is an evaluation of.
_PLAN = "unfinished.json"


def _open(contest: Contest, out: Path) -> Journal:
    """The journal of a new evaluation, or of the one that this folder holds the beginning of."""
    config = command_line.to_yaml(contest.values)
    facts = {key: value for key, value in contest.facts.items() if key != "command"}
    plan = facts | {"questions": _digest(contest.questions), "config": config}
    file = out / _PLAN
    if file.exists():
        if json.loads(file.read_text(encoding="utf-8")) != plan:
            raise InputError(
                f"--out: {out} holds an unfinished evaluation with other settings; give those, or "
                "choose another folder"
            )
    else:
        out.mkdir(parents=True, exist_ok=True)
        metrics.write_json(file, plan)
        write_text(out / "config.yaml", config)
    return Journal(out / "predictions.jsonl")


def _digest(questions: Sequence[Question]) -> str:
    rows = [[q.dataset, q.id, q.prompt, q.answers] for q in questions]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()
