"""Several question files as one: a question of each in turn, until the files run out.

Any prefix, and so any `limit`, holds equally many of each file as long as they last. Each file is
split by its own ids, as if it were read alone.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice

from retrieval import plugins
from retrieval.errors import InputError

from ..interleaving import in_turn
from ..question_files import Selection, ruled
from ..types import Dataset, Question


@dataclass(frozen=True, slots=True)
class Config:
    """Settings.

    Attributes:
        parts: Sets as "dataset=path", such as "nq=nq.jsonl" and "hotpotqa=hotpot.json"; a path may
            be an address on the Hugging Face hub, as "musique=hf:" for the set's own.
        split: "all", "train" or "test".
        test_share: Share of the questions that is "test", 0 to 1, by the hash of the id.
        limit: At most so many questions in all; null for all.
        subset_seed: With a limit, a random subset by the hash of seed and id instead of the first
            questions, equally many of each part as long as they last; null for the first ones.
        rules: Rules of the searches for these questions: "novel_only" (no passage twice in an
            episode), "strict_queries" (no query with the text of an option), "exclude_sources"
            (without the passages that the question was made from).
    """

    parts: tuple[str, ...]
    split: str = "all"
    test_share: float = 0.2
    limit: int | None = None
    subset_seed: int | None = None
    rules: tuple[str, ...] = ()


def build(config: Config) -> Dataset:
    """Read all parts.

    Raises:
        InputError: A setting, a part, a file or a row is wrong.
    """
    selection = Selection(config.split, config.test_share, config.limit, config.subset_seed)
    if not config.parts:
        raise InputError('mix: no parts; give at least one, such as "nq=nq.jsonl"')
    parts: Sequence[Sequence[Question]] = [_read(part, config) for part in config.parts]
    names = [part.partition("=")[0] for part in config.parts]
    parts = _distinct(names, parts)
    if config.subset_seed is not None:
        parts = _subset(parts, selection)
    mixed = in_turn(parts)
    return Dataset(ruled(tuple(islice(mixed, config.limit)), config.rules))


def _subset(parts: Sequence[Sequence[Question]], selection: Selection) -> list[list[Question]]:
    """Of each part the questions of the seeded subset, in the order of the file."""
    ranked = in_turn(sorted(part, key=selection.rank) for part in parts)
    chosen = {question.id for question in islice(ranked, selection.limit)}
    return [[question for question in part if question.id in chosen] for part in parts]


def _read(part: str, config: Config) -> Sequence[Question]:
    name, mark, path = part.partition("=")
    if not (name and mark and path):
        raise InputError(f'mix: part {part!r} must be "dataset=path", such as "nq=nq.jsonl"')
    plugin = plugins.load("envs.datasets", name)
    if "path" not in {field.name for field in fields(plugin.Config)}:
        raise InputError(f"mix: part {part!r}: {name} reads no file; mix only data sets of files")
    built: Dataset = plugin.build(
        # No limit: which ids collide, and so what the ids are, must not depend on it.
        plugin.Config(path=path, split=config.split, test_share=config.test_share)
    )
    return built.questions


def _distinct(names: Sequence[str], parts: Sequence[Sequence[Question]]) -> list[list[Question]]:
    """Where an id occurs in several parts, each gets the part's name before it."""
    counts = Counter(question.id for part in parts for question in part)
    labels = [
        name if names.count(name) == 1 else f"{name}{number}"
        for number, name in enumerate(names, 1)
    ]
    return [
        [
            replace(question, id=f"{label}/{question.id}") if counts[question.id] > 1 else question
            for question in part
        ]
        for label, part in zip(labels, parts, strict=True)
    ]
