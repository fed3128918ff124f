"""What the recipes of configs/papers need: the table of docs/recipes.md, by `train.py --dry-run`.

    python -m benchmarks.recipes [--cards 24 48 80]

Recipes that differ in nothing that takes memory share their rows. Nothing is measured here; how
good the estimate is, `benchmarks/memory.py` says.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from jsonargparse import ArgumentParser

from agents import command_line
from agents.config import TRAIN_LAYOUT, RunConfig
from agents.preflight import GB, card, needs, remedies

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "configs/papers").glob("*.yaml"))
MODELS = (
    "Qwen/Qwen2.5-3B-Instruct",
    "Qwen/Qwen2.5-7B-Instruct",
    "meta-llama/Llama-3.1-8B-Instruct",
)
CARDS = (24.0, 48.0, 80.0)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Memory of the recipes.")
    parser.add_argument("--cards", type=float, nargs="+", default=CARDS, help="GB of each card.")
    print("\n".join(table(parser.parse_args().cards)))


def table(cards: Sequence[float] = CARDS) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield "| recipes | model | peak, GB | " + " | ".join(f"{gb:g} GB" for gb in cards) + " |"
    yield "|---|---|---|" + "---|" * len(cards)
    rows: dict[tuple[str, ...], list[str]] = {}
    for model in MODELS:
        for file in FILES:
            config = read(file, model)
            peak = needs(config, card(config, cards[-1])).peak
            advice = [_advice(config, gb) for gb in cards]
            rows.setdefault((model, f"{peak / GB:.1f}", *advice), []).append(f"`{file.stem}`")
    for (model, *columns), names in rows.items():
        yield f"| {', '.join(names)} | {model} | " + " | ".join(columns) + " |"


def read(file: Path, model: str) -> RunConfig:
    """A recipe with another base model."""
    argv = ["--config", str(file), "--model.name", model]
    return RunConfig(**command_line.parse(ArgumentParser(), TRAIN_LAYOUT, argv, {})[0])


def _advice(config: RunConfig, gb: float) -> str:
    changes = remedies(config, card(config, gb))
    if changes is None:
        return "does not fit"
    return " ".join(f"`{change}`" for change in changes) or "fits"


if __name__ == "__main__":
    main()
