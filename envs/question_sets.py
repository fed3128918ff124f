"""Named question sets: what the plug-ins of `envs/datasets` that read questions have in common.

A named set is its row formats, how its publisher lays out files, and where it lies on the hub.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .question_files import Selection, Skip, questions_of, ruled, select
from .question_formats import Format, columns_of
from .question_hub import PREFIX, HubAddress, addresses, hub_rows
from .question_rows import Layout, file_rows
from .types import Question

Rows = Iterable[tuple[str, object]]


@dataclass(frozen=True, slots=True)
class SetConfig:
    """The settings that every named set has.

    Attributes:
        path: A file: .jsonl, .json (both also .gz), .parquet, .csv or .tsv. Or an address on the
            Hugging Face hub, "hf:owner/name:configuration@split", of which the last two may be left
            out and a local folder may be the first. Null, or "hf:", is this set's own place there,
            "hf:@validation" another split of it.
        split: "all", "train" or "test" of what `path` holds.
        test_share: Share of the questions that is "test", 0 to 1, by the hash of the id.
        limit: At most so many questions, from the start; null for all.
        subset_seed: With a limit, a random subset by the hash of seed and id instead of the first
            questions: it stays when rows are reordered. Null for the first ones.
        rules: Rules of the searches for these questions: "novel_only" (no passage twice in an
            episode), "strict_queries" (no query with the text of an option), "exclude_sources"
            (without the passages that the question was made from).
    """

    path: str | None = None
    split: str = "all"
    test_share: float = 0.2
    limit: int | None = None
    subset_seed: int | None = None
    rules: tuple[str, ...] = ()

    def selection(self, test_ids: frozenset[str] | None = None) -> Selection:
        """The questions that the settings ask for; `test_ids` as in `Selection`.

        Raises:
            InputError: A setting is wrong.
        """
        return Selection(self.split, self.test_share, self.limit, self.subset_seed, test_ids)


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A named set.

    Attributes:
        name: `Question.dataset` where a row names none.
        formats: The row formats that may occur.
        layout: How its publisher lays out files; None for a list, or a row a line.
        hub: Its places on the hub, read one after the other; empty where it is not there.
    """

    name: str
    formats: tuple[Format, ...]
    layout: Layout | None = None
    hub: tuple[HubAddress, ...] = ()

    def source(self, config: SetConfig) -> str:
        """Where the questions come from, for messages."""
        return config.path or f"{self.name} on the hub"

    def rows(self, config: SetConfig) -> Iterator[tuple[str, object]]:
        """The rows of the file or of the data set on the hub, each with its place.

        Raises:
            InputError: They cannot be had.
        """
        if config.path is None or config.path.startswith(PREFIX):
            return hub_rows(addresses(config.path, self.hub, self.name))
        return file_rows(Path(config.path), columns_of(self.formats), self.layout)

    def questions(
        self,
        config: SetConfig,
        rows: Rows | None = None,
        skip: Skip | None = None,
        test_ids: frozenset[str] | None = None,
    ) -> tuple[Question, ...]:
        """The questions that the settings ask for.

        Args:
            config: The settings.
            rows: The rows where they are read already; None to read them.
            skip: Which questions to leave out, and why.
            test_ids: The ids that make up the test split, where they are published.

        Raises:
            InputError: A setting, the source or a row is wrong, or nothing is left; the message
                names file and line.
        """
        selection = config.selection(test_ids)
        source = self.source(config)
        rows = self.rows(config) if rows is None else rows
        keyed = questions_of(source, rows, self.name, self.formats, skip)
        return ruled(select(source, keyed, selection), config.rules)
