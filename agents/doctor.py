"""Check a configuration's parts before hours are spent on them.

`python -m agents.doctor --config configs/quickstart.yaml` takes what train.py takes, trains nothing
and writes nothing: it plays a few episodes, prints the action mask of one, and says of each check
that it is green, or what to do.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

from jsonargparse import ArgumentParser

from envs.actions import render
from retrieval.errors import InputError, RetrievalError

from . import command_line
from .assembly import Parts, build_parts
from .config import TRAIN_LAYOUT, RunConfig
from .engine import EngineError, Sampling
from .finding import Finding
from .mask_view import show_mask
from .playing import STOP
from .policy_checks import check_adapters, check_memory, check_ratio, check_template
from .token_transcripts import pieces
from .types import Trajectory
from .world_checks import check_retriever, check_reward

_GREEN, _RED, _END = "\x1b[32m", "\x1b[31m", "\x1b[0m"
_PLAYED = (2, 2)  # questions, and episodes of each


def main(argv: Sequence[str] | None = None) -> int:
    """The command.

    Returns:
        The exit status: 0 if all is green, 1 if something is not, 2 for bad input.
    """
    parser = ArgumentParser(prog="python -m agents.doctor", description=__doc__)
    arguments = sys.argv[1:] if argv is None else argv
    try:
        values, _ = command_line.parse(parser, TRAIN_LAYOUT, arguments, {})
        config = RunConfig(**values)
        memory = check_memory(config)  # of what is free before the model is there
        parts = build_parts(config)
    except InputError as error:
        print(f"doctor: error: {error}", file=sys.stderr)
        return 2
    except RetrievalError as error:
        print(f"doctor: retrieval failed: {error}", file=sys.stderr)
        return 1
    colour = sys.stdout.isatty()
    green = True
    for name, finding in chain(examine(parts, colour), [("memory", memory)]):
        green &= finding.green
        print(_report(name, finding, colour), flush=True)
    print("all is green" if green else "not all is green: see the remedies above")
    return 0 if green else 1


def examine(parts: Parts, colour: bool = False) -> Iterator[tuple[str, Finding]]:
    """Every check of the built parts with its finding; prints the mask of one episode."""
    played: list[Trajectory] = []

    def play() -> Finding:
        played.extend(play_some(parts))
        longest = max(played, key=lambda one: len(one.turns))
        tokens = sum(len(turn.prompt_ids) for turn in longest.turns)
        print(show_mask(longest, partial(pieces, parts.policy), colour))
        return Finding(
            f"{longest.num_action_tokens} of {longest.num_action_tokens + tokens} tokens of the "
            "episode above are trained on"
        )

    framing, question = parts.rollout.framing, parts.questions[0]
    checks: dict[str, Callable[[], Finding]] = {
        "action mask": play,
        "chat template": lambda: check_template(framing, question, render([])[0]),
        "on-policy ratio": lambda: check_ratio(parts, played),
        "adapter delivery": lambda: check_adapters(parts),
        "reward": lambda: check_reward(parts),
        "retriever": lambda: check_retriever(parts),
    }
    for name, check in checks.items():
        yield name, _guarded(check)


def play_some(parts: Parts) -> list[Trajectory]:
    """A few episodes, sampled as in training."""
    questions, group_size = _PLAYED
    options = parts.config.engine.options
    sampling = Sampling(options.max_tokens, parts.config.rollout.temperature, STOP, seed=0)
    return parts.rollout.play(parts.questions[:questions], group_size, sampling)


def _guarded(check: Callable[[], Finding]) -> Finding:
    """A check that breaks is a finding too, and the others still run."""
    try:
        return check()
    except (InputError, RetrievalError, EngineError) as error:
        return Finding(str(error), "mend what the message names, and run the doctor again")
    except Exception as error:  # a plug-in may raise anything
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return Finding(said, "a part broke: the same configuration of train.py shows the traceback")


def _report(name: str, finding: Finding, colour: bool) -> str:
    word = "green" if finding.green else "RED"
    shade = _GREEN if finding.green else _RED
    mark = f"{shade}{word:<5}{_END}" if colour else f"{word:<5}"
    remedy = "" if finding.green else f"\n{'':18}{'':6}remedy: {finding.remedy}"
    return f"{name:<18}{mark} {finding.said}{remedy}"


if __name__ == "__main__":
    sys.exit(main())
