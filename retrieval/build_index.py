"""Build an index folder of a corpus file.

    python -m retrieval.build_index --corpus C.jsonl.gz --retriever dense --out indexes/x
    python -m retrieval.build_index --corpus C.jsonl.gz --retriever lucene --index.k1 1.2 --dry-run

`--index.KEY VALUE` sets a field of the engine's `Config`. A build that is stopped goes on when the
same command is given again. `--dry-run` builds nothing: it says what the build will need, and
whether this machine has it.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from . import plugins
from .errors import InputError, RetrievalError
from .estimate import estimate
from .index import ENGINE, PACKAGE, build_index, folder_bytes
from .parser_errors import explain


def main(argv: Sequence[str] | None = None) -> int:
    """The command; 2 for usage errors."""
    try:
        return _main(list(sys.argv[1:] if argv is None else argv))
    except (InputError, RetrievalError) as error:
        print(f"build_index: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nbuild_index: stopped; the same command goes on with it", file=sys.stderr)
        return 130


def _main(argv: list[str]) -> int:
    args, config = _parse(argv)
    if args.dry_run:
        needs = estimate(Path(args.corpus), args.retriever, config)
        print(needs.report(Path(args.out or ".")))
        return 0 if needs.fits(Path(args.out or ".")) else 2
    if args.out is None:
        raise InputError("--out is missing: give the folder to make, such as indexes/wiki")
    began, out = time.monotonic(), Path(args.out)
    manifest = build_index(Path(args.corpus), out, args.retriever, config)
    size, engine = folder_bytes(out), folder_bytes(out / ENGINE)
    print(
        f"{out}: {args.retriever}, {manifest['corpus']['passages']:,} passages, "
        f"{size / 1e6:,.1f} MB (of which the engine's {engine / 1e6:,.1f}), "
        f"{time.monotonic() - began:,.1f} s"
    )
    return 0


def _parse(argv: list[str]) -> tuple[Any, Any]:
    """(arguments, the engine's Config)."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    first.add_argument("--retriever", default="bm25s")
    try:
        name = first.parse_known_args(argv)[0].retriever
    except argparse.ArgumentError as error:
        raise InputError(str(error)) from error
    module = plugins.load(PACKAGE, name)
    parser = ArgumentParser(
        prog="python -m retrieval.build_index",
        description=__doc__,
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_argument("--corpus", required=True, help="A .jsonl, .jsonl.gz or .parquet file.")
    parser.add_argument(
        "--retriever", default="bm25s", help=f"One of {', '.join(plugins.names(PACKAGE))}."
    )
    parser.add_argument("--out", help="The folder to make.")
    parser.add_argument("--dry-run", action="store_true", help="Say what the build will need.")
    parser.add_class_arguments(module.Config, "index")
    try:
        args = parser.parse_args(argv)
        config = parser.instantiate(args).index
    except (argparse.ArgumentError, TypeError, ValueError) as error:
        keys = {action.dest for action in parser._actions} - {"help", "print_shtab"}
        raise InputError(explain(error, keys, {"index": name})) from error
    return args, config


if __name__ == "__main__":
    sys.exit(main())
