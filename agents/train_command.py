"""The command `train.py`: arguments in, a run folder out."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace
from jsonargparse.typing import PositiveFloat

from retrieval.errors import InputError, RetrievalError

from . import command_line, preflight, processes, wandb_run
from .assembly import build_parts
from .config import TRAIN_LAYOUT, RunConfig
from .engine import EngineError
from .interruption import Interrupts
from .rollback import CollapseError
from .run_report import write_run_report
from .starting import begin, resume
from .training import train
from .writing import WriteError, check_creatable, write_text


def main(argv: Sequence[str]) -> int:
    """Run the command.

    Returns:
        The exit status: 0; 1 if retrieval, the engine or another process failed, or the folder
        cannot be written to; 2 for bad input; 3 if the guard gave up; 130 after Ctrl-C, 143 after
        SIGTERM.
    """
    folder: list[Path] = []  # once there is a run to go on with
    try:
        with Interrupts() as interrupts:
            processes.join()
            with processes.together():
                config, flags = _read(argv)
                if flags.dry_run:
                    return _dry_run(config, flags.memory_gb)
            command = shlex.join(["python", "train.py", *argv])
            summary = _train(config, flags, command, folder, interrupts)
            first = processes.rank() == 0
            processes.leave()
    except processes.FailedElsewhere:
        return 1
    except InputError as error:
        return _fail(f"error: {error}", 2)
    except RetrievalError as error:
        return _fail(f"retrieval failed: {error}", 1)
    except EngineError as error:
        return _fail(f"generation failed: {error}; {_remedy(folder)}", 1)
    except WriteError as error:
        return _fail(f"{error}; free space or make it writable, then {_remedy(folder)}", 1)
    except CollapseError as error:
        return _fail(str(error), 3)
    except KeyboardInterrupt as error:
        return _fail(f"interrupted; {_remedy(folder)}", getattr(error, "status", 130))
    if first:
        _tell(summary, folder[0])
    return 0


def _fail(message: str, status: int) -> int:
    print(f"train.py: {message}", file=sys.stderr)
    return status


def _remedy(folder: Sequence[Path]) -> str:
    return f"go on with: python train.py --resume {folder[0]}" if folder else "nothing written"


def _train(
    config: RunConfig, flags: Namespace, command: str, folder: list[Path], interrupts: Interrupts
) -> dict[str, Any] | None:
    """Build everything, then write: the run's folder is added to `folder` when it is there."""
    with processes.together():
        resumed = flags.resume is not None
        _check_folder(config, flags)
        wandb_run.check(config.run.wandb)
        _check_memory(config)
        parts = build_parts(config)
        start = resume(parts) if resumed else begin(parts)
    with processes.together():
        if processes.rank() == 0:
            _prepare_folder(config, flags.overwrite and not resumed)
    folder.append(parts.folder)
    try:
        return train(parts, start, command, interrupts)
    except CollapseError:
        if processes.rank() == 0:
            _report(parts.folder)  # the curves that it gave up for
        raise


def _tell(summary: dict[str, Any] | None, folder: Path) -> None:
    """What came of a run. A report that cannot be made does not make it look failed."""
    if summary is not None:
        print(_table(summary))
    _report(folder)
    print(f"run folder: {folder}")


def _report(folder: Path) -> None:
    try:
        print(f"report: {write_run_report(folder)}")
    except InputError as error:
        print(f"train.py: no report: {error}", file=sys.stderr)


def _read(argv: Sequence[str]) -> tuple[RunConfig, Namespace]:
    """The configuration, and the command's own flags."""
    parser = ArgumentParser(prog="train.py", description="Train a search agent.")
    parser.add_argument("--resume", type=str, default=None, help="A run folder to go on with.")
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="Move an existing run.dir aside (to dir-1, dir-2, ...) instead of refusing it.",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="Only say how much memory the run will need, and whether it fits (exit status 2: no).",
    )
    parser.add_argument(
        "--memory_gb",
        type=PositiveFloat,
        default=None,
        help="With --dry-run: plan for a GPU with so many gigabytes.",
    )
    resumed = command_line.peek(argv, "--resume")
    if resumed is not None:
        file = Path(resumed) / "config.yaml"
        if not file.exists():
            raise InputError(f"--resume {resumed}: no config.yaml there; give a run's folder")
        argv = ["--config", str(file), *argv, "--run.dir", resumed]
    values, flags = command_line.parse(parser, TRAIN_LAYOUT, argv, {})
    if flags.resume != resumed:
        raise InputError("resume: give --resume on the command line, not in a file")
    if flags.memory_gb is not None and not flags.dry_run:
        raise InputError("memory_gb: it plans for another card; give --dry-run too")
    return RunConfig(**values), flags


def _dry_run(config: RunConfig, memory_gb: float | None) -> int:
    """Print the estimate; 0 if the run fits, 2 if not."""
    if memory_gb is None:
        device = preflight.this_device(config)
    else:
        device = preflight.card(config, memory_gb)
    text, fits = preflight.report(config, device)
    print(text)
    return 0 if fits else 2


def _check_memory(config: RunConfig) -> None:
    """Refuse a run that cannot fit its device; a warning for one that may not."""
    warning = preflight.check(config)
    if warning is not None and processes.rank() == 0:
        print(f"train.py: warning: {warning}", file=sys.stderr)


def _check_folder(config: RunConfig, flags: Namespace) -> None:
    """Refuse a folder that cannot take the run, before anything slow is built."""
    resumed = flags.resume is not None
    folder = Path(config.run.dir)
    if not (folder.name or resumed):
        raise InputError(f"run.dir: {config.run.dir!r} is no folder of a run's own; give runs/NAME")
    check_creatable("run.dir", folder)
    if folder.exists() and not (resumed or flags.overwrite):
        raise InputError(
            f"run.dir: {folder} exists; go on with --resume {folder}, give another --run.dir, "
            "or move it aside with --overwrite"
        )


def _prepare_folder(config: RunConfig, overwrite: bool) -> None:
    """Move an earlier folder aside if that is wanted, and write the resolved configuration."""
    folder = Path(config.run.dir)
    try:
        if folder.exists() and overwrite:
            number = 1
            while (aside := folder.with_name(f"{folder.name}-{number}")).exists():
                number += 1
            folder.rename(aside)
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "config.yaml", command_line.to_yaml(command_line.sections(config)))
    except OSError as error:
        raise InputError(
            f"run.dir: cannot write {folder}: {error.strerror}; give another --run.dir"
        ) from error


def _table(summary: dict[str, Any]) -> str:
    difference = summary["difference"]
    rows = [
        f"held-out questions: {summary['n']}",
        f"{'':>12} {'EM':>7} {'searches':>9} {'invalid':>8}",
    ]
    for when in ("before", "after"):
        rows.append(
            f"{when:>12} {summary[f'em_{when}']:7.3f} {summary[f'searches_{when}']:9.2f} "
            f"{summary[f'invalid_rate_{when}']:8.3f}"
        )
    rows.append(
        f"{'difference':>12} {difference['mean']:+7.3f}  95 % interval "
        f"[{difference['low']:+.3f}, {difference['high']:+.3f}] (paired bootstrap)"
    )
    rows.append(f"{'seconds':>12} {summary['seconds']:7.0f}")
    return "\n".join(rows)
