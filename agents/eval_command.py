"""The command `eval.py`: an agent, questions and a corpus in, scores with intervals out."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from retrieval.errors import InputError, RetrievalError

from . import comparison, eval_run, processes
from .chat import ModelError
from .engine import EngineError


def main(argv: Sequence[str]) -> int:
    """Run the command.

    Returns:
        The exit status: 0, 1 if retrieval or the model failed throughout, 2 for bad input, 130 if
        interrupted.
    """
    if any(flag == "--compare" or flag.startswith("--compare=") for flag in argv):
        return comparison.main(argv)
    try:
        parser = build_parser()
        values, flags, preset = eval_run.parse(argv, parser)
        _check(flags)
        if processes.launched():
            raise InputError("WORLD_SIZE: evaluation is one process; start it with plain python")
        if flags.interactive:
            eval_run.interact(values, flags.agent)
            return 0
        out = Path(flags.out)
        eval_run.check_out(out)
        summary = eval_run.run(eval_run.build(values, flags, preset, argv), out)
    except InputError as error:
        print(f"eval.py: error: {error}", file=sys.stderr)
        return 2
    except RetrievalError as error:
        print(f"eval.py: retrieval failed: {error}", file=sys.stderr)
        return 1
    except EngineError as error:
        print(f"eval.py: generation failed: {error}", file=sys.stderr)
        return 1
    except ModelError as error:
        print(f"eval.py: the model gave no reply in any episode: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("eval.py: interrupted; the same command goes on where it was", file=sys.stderr)
        return 130
    print(table(summary))
    print(f"results: {out} (report.html shows every episode)")
    if not summary["n"]:
        print("eval.py: retrieval failed in every episode", file=sys.stderr)
        return 1
    return 0


def build_parser() -> ArgumentParser:
    """The command's own flags."""
    parser = ArgumentParser(
        prog="eval.py",
        description="Play questions greedily and score the answers. Stopped, the same command goes "
        "on where it was. `eval.py --compare A B` compares two results question by question.",
    )
    add = parser.add_argument
    add(
        "--agent",
        type=str,
        default="embedded",
        help="A run folder, a checkpoint folder, or the name of an untrained model.",
    )
    add("--preset", type=str | None, default=None, help="A published evaluation: search_r1.")
    add("--limit", type=int | None, default=None, help="The first so many questions.")
    add("--out", type=str, default="results/default", help="Folder of the results.")
    add(
        "--with_evidence", type=bool, default=False, help="Only questions that name their evidence."
    )
    add(
        "--orders",
        type=int,
        default=1,
        help="Ask each question with its options in so many orders; also report how often the "
        "answer is right in all of them.",
    )
    add(
        "--abstain",
        type=bool,
        default=False,
        help="Tell the agent that it may answer 'unknown'; report coverage, and the score over "
        "what it answered.",
    )
    add("--interactive", action="store_true", help="Ask questions in the terminal instead.")
    return parser


def _check(flags: Any) -> None:
    for name in ("limit", "orders"):
        value = getattr(flags, name)
        if value is not None and value < 1:
            raise InputError(f"--{name}: {value} is too few; give at least 1")


def table(summary: dict[str, Any]) -> str:
    """A summary as lines for the terminal."""
    lines = [f"questions: {summary['n']}  infra errors: {summary['infra_errors']}"]
    for dataset, own in {"": summary, **summary.get("datasets", {})}.items():
        lines += [f"{dataset} ({own['n']})"] if dataset else []
        lines += _rows(own)
    return "\n".join(lines)


def _rows(summary: dict[str, Any]) -> list[str]:
    rows = []
    for name, value in summary.items():
        if isinstance(value, dict) and "low" in value:
            rows.append(
                f"{name:>20} {value['mean']:.3f}  [{value['low']:.3f}, {value['high']:.3f}]"
            )
        elif name.endswith(("_mean", "_rate")):
            rows.append(f"{name:>20} {value:.3f}")
    if outcomes := summary.get("outcomes"):
        shares = ", ".join(f"{name} {count}" for name, count in outcomes.items())
        rows.append(f"{'outcomes':>20} {shares}")
    return rows
