"""What a training step costs, against other ways to take it, and how that grows.

    python -m benchmarks.training trl [--task multi|single]   # a whole step against TRL's
    python -m benchmarks.training update                      # against full logits
    python -m benchmarks.training prompts [--task ...]        # against an update of whole rows
    python -m benchmarks.training profile                     # share outside matrix products
    python -m benchmarks.training scaling                     # episodes, turns, lengths, layers

What is compared, what is held equal and the targets: docs/performance.md. `--out FILE` writes all
numbers as JSON.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from retrieval.errors import InputError

from . import operators, prompts, scaling, sides, update, whole_step

PARTS = {
    "trl": whole_step,
    "update": update,
    "prompts": prompts,
    "profile": operators,
    "scaling": scaling,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one part; the exit status."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args = _parser().parse_args(argv)
    if args.threads:
        torch.set_num_threads(args.threads)
    try:
        found = PARTS[args.part].run(args, argv)
        if args.side is None:
            command = f"python -m benchmarks.training {' '.join(argv)}"
            found = {"command": command, **sides.setting(), **found}
        sides.save(args.out, found)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    for name, module in PARTS.items():
        part = parts.add_parser(name, help=module.__doc__, description=module.__doc__)
        part.add_argument("--model", default="embedded", help="As model.name of train.py.")
        part.add_argument("--layers", type=int, default=10, help="Adapted last layers; 0 for all.")
        part.add_argument("--threads", type=int, default=0, help="0 for torch's own choice.")
        part.add_argument("--out", type=Path, help="A JSON file of all numbers.")
        module.add_arguments(part)
    return parser
