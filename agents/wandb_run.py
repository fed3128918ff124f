"""Weights & Biases, if wanted: the numbers that TensorBoard gets. Imported only when asked for."""

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retrieval.errors import InputError

from .writing import write_text

FILE = "wandb.json"


def check(project: str | None) -> None:
    """Find out before the work starts that it could not be logged.

    Raises:
        InputError: A project is given, and the library is not installed.
    """
    if project is not None:
        _library()


class WandbRun:
    """One run there, gone on with when the training is: its id stands in the run's folder."""

    def __init__(self, project: str, folder: Path, config: Mapping[str, Any]) -> None:
        """Open the run, or open it again.

        Args:
            project: Its project.
            folder: Of the training run; its name is the run's.
            config: Shown beside the curves.

        Raises:
            InputError: The library is not installed, or refuses (no key, no network).
        """
        library = _library()
        known = _known_id(folder / FILE)
        settings = {
            **{"project": project, "name": folder.name, "id": known, "resume": "allow"},
            # It would put itself between the table and the terminal.
            "settings": library.Settings(console="off"),
        }
        try:
            self._run = library.init(dir=folder, config=dict(config), **settings)
        except library.Error as error:
            raise InputError(
                f"run.wandb: {' '.join(str(error).split())}; log in with `wandb login`, set "
                "WANDB_MODE=offline, or leave run.wandb out"
            ) from error
        if known is None:
            write_text(folder / FILE, json.dumps({"id": self._run.id, "project": project}) + "\n")

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        """One step's numbers; those of a step that it has seen already are not taken again."""
        self._run.log(dict(scalars), step=step)

    def close(self) -> None:
        """Send or write what is left."""
        self._run.finish()


def _library() -> Any:
    try:
        library = importlib.import_module("wandb")
        library.init  # noqa: B018 (a folder of this name would import as an empty package)
    except (ImportError, AttributeError) as error:
        raise InputError(
            "run.wandb: Weights & Biases is not installed; run `pip install wandb`, or leave "
            "run.wandb out"
        ) from error
    return library


def _known_id(file: Path) -> str | None:
    if not file.exists():
        return None
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{file}: damaged; remove it to go on as a new Weights & Biases run"
        ) from error
