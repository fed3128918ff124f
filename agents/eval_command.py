"""The command `eval.py`: an agent, questions and a corpus in, scores with intervals out."""

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace
from tqdm import tqdm

from retrieval.errors import InputError, RetrievalError

from . import command_line, comparison, metrics
from .assembly import STOP, PlayOptions, build_dataset, build_policy, build_retriever, build_rollout
from .checkpoint import latest_checkpoint
from .config import EVAL_LAYOUT
from .evaluation import evaluate, summarize
from .predictions import Prediction
from .writing import write_text


def main(argv: Sequence[str]) -> int:
    """Run the command.

    Returns:
        The exit status: 0, 1 if retrieval failed throughout, 2 for bad input, 130 if interrupted.
    """
    if any(flag == "--compare" or flag.startswith("--compare=") for flag in argv):
        return comparison.main(argv)
    try:
        summary, out = _run(argv)
    except InputError as error:
        print(f"eval.py: error: {error}", file=sys.stderr)
        return 2
    except RetrievalError as error:
        print(f"eval.py: retrieval failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("eval.py: interrupted; nothing was written", file=sys.stderr)
        return 130
    print(_table(summary))
    print(f"results: {out}")
    if not summary["n"]:
        print("eval.py: retrieval failed in every episode", file=sys.stderr)
        return 1
    return 0


def _run(argv: Sequence[str]) -> tuple[dict[str, Any], Path]:
    agent = command_line.peek(argv, "--agent", "embedded")
    defaults = agent_defaults(str(agent))
    values, flags = command_line.parse(_parser(), EVAL_LAYOUT, argv, defaults)
    if flags.agent != agent:
        raise InputError("agent: give --agent on the command line, not in a file")
    out = _checked_out(flags)
    started = time.monotonic()
    dataset = build_dataset(values["dataset"])
    retriever, fingerprint = build_retriever(values["retriever"], dataset)
    policy = build_policy(values["model"], seed=0)
    play = PlayOptions(values["env"], values["prompt"], values["engine"])
    rollout = build_rollout(policy, dataset, retriever, play)
    questions = dataset.questions[: flags.limit]
    with tqdm(total=len(questions), desc="evaluation", unit="question", leave=False) as bar:
        max_tokens = values["engine"].options.max_tokens
        predictions = evaluate(rollout, questions, max_tokens, STOP, bar.update)
    summary = {
        **summarize(predictions),
        "seconds": round(time.monotonic() - started, 1),
        "corpus_fingerprint": fingerprint,
        "retriever": values["retriever"].name,
        "preset": None,
        "seed": 0,
        "agent": flags.agent,
        "command": shlex.join(["python", "eval.py", *argv]),
    }
    _write(out, values, predictions, summary)
    return summary, out


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="eval.py",
        description="Play questions greedily and score the answers.",
    )
    parser.add_argument(
        "--agent",
        type=str,
        default="embedded",
        help="A run folder, a checkpoint folder, or the name of an untrained model.",
    )
    parser.add_argument(
        "--limit", type=int | None, default=None, help="The first so many questions."
    )
    parser.add_argument("--out", type=str, default="results/default", help="Folder of the results.")
    return parser


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
    run = folder.parent.parent if folder.parent.name == "checkpoints" else folder
    if not (run / "config.yaml").exists():
        return {"model": {"name": name}}
    checkpoint = folder if folder != run else latest_checkpoint(run)
    if checkpoint is None:
        raise InputError(f"--agent {name}: this run has no checkpoint yet; go on training it")
    sections = command_line.read_yaml(run / "config.yaml", EVAL_LAYOUT)
    return sections | {"model": {**sections.get("model", {}), "adapter": str(checkpoint)}}


def _checked_out(flags: Namespace) -> Path:
    out = Path(flags.out)
    command_line.check_creatable("--out", out)
    if out.exists() and any(out.iterdir()):
        raise InputError(f"--out: {out} exists and is not empty; choose another folder")
    if flags.limit is not None and flags.limit < 1:
        raise InputError(f"--limit: {flags.limit} is too few; give at least 1")
    return out


def _write(
    out: Path,
    values: dict[str, Any],
    predictions: Sequence[Prediction],
    summary: dict[str, Any],
) -> None:
    """The summary comes last: a folder that has one is whole."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / "config.yaml", command_line.to_yaml(values))
        metrics.write_lines(out / "predictions.jsonl", [p.to_json() for p in predictions])
        metrics.write_json(out / "summary.json", summary)
    except OSError as error:
        raise InputError(f"--out: cannot write {out}: {error.strerror}; choose another") from error


def _table(summary: dict[str, Any]) -> str:
    lines = [f"questions: {summary['n']}  infra errors: {summary['infra_errors']}"]
    for name, value in summary.items():
        if isinstance(value, dict):
            lines.append(
                f"{name:>14} {value['mean']:.3f}  [{value['low']:.3f}, {value['high']:.3f}]"
            )
        elif name.endswith(("_mean", "_rate")):
            lines.append(f"{name:>14} {value:.3f}")
    return "\n".join(lines)
