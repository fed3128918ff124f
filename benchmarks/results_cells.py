"""The cells of the results table, methods x data sets, and the CSV that remembers their scores."""

import csv
import io
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.writing import write_text

# Name of a set -> its file and its corpus below the data folder.
SETS = {
    "nq": ("nq/nq_open_with_corpus.jsonl", "wiki/wiki_corpus.jsonl.gz"),
    "hotpotqa": ("hotpotqa/hotpotqa_with_corpus.jsonl", "wiki/wiki_corpus.jsonl.gz"),
    "2wikimultihopqa": ("2wikimultihopqa/2wiki_with_corpus.jsonl", "wiki/wiki_corpus.jsonl.gz"),
    "musique": ("musique/musique_with_corpus.jsonl", "wiki/wiki_corpus.jsonl.gz"),
    "medqa": ("medqa/medqa_us_test_4opt.jsonl", "medical/medical_corpus.jsonl.gz"),
    "medmcqa": ("medmcqa/medmcqa_dev.jsonl", "medical/medical_corpus.jsonl.gz"),
    "pubmedqa": ("pubmedqa/pubmedqa_test.jsonl", "medical/medical_corpus.jsonl.gz"),
    "bioasq": ("bioasq/bioasq_yesno.jsonl", "medical/medical_corpus.jsonl.gz"),
}
WORLDS = ("atlas", "formulary")
# What configs/nq_hotpotqa.yaml learns from: only the questions that it held out are asked.
TRAINED_ON = {"nq", "hotpotqa"}
TRAINED_OVER = SETS["nq"][1]
# Sets whose rows name no evidence: there is no ceiling to read.
NO_EVIDENCE = {"medqa", "medmcqa"}
TAGS = ("--method.name", "search_r1")
# Row of the table -> the flags of eval.py; in braces a run, which a flag of the command names.
METHODS = {
    "scripted": ["--method.name", "scripted"],
    "direct": ["--method.name", "direct"],
    "cot": ["--method.name", "cot"],
    "r1, zero-shot": ["--method.name", "r1"],
    "sft": ["--method.name", "sft", "--agent", "{sft}"],
    "rag": ["--method.name", "rag"],
    "oracle": ["--method.name", "oracle", "--with_evidence", "true"],
    "search_r1, zero-shot": [*TAGS],
    "research, zero-shot": ["--method.name", "research"],
    "search_r1, trained": [*TAGS, "--agent", "{trained}"],
    "rejection_sampling": ["--method.name", "rejection_sampling", "--agent", "{rejection}"],
    "ircot": ["--method.name", "ircot"],
    "search_o1": ["--method.name", "search_o1"],
}
# What the medical options change: sets, and flags as above.
OPTIONS = {
    "scripted, exclude_sources": (
        ("pubmedqa", "bioasq"),
        [*METHODS["scripted"], "--dataset.rules", "[exclude_sources]"],
    ),
    "rag, exclude_sources": (
        ("pubmedqa", "bioasq"),
        [*METHODS["rag"], "--dataset.rules", "[exclude_sources]"],
    ),
    "direct, orders": (("medmcqa",), [*METHODS["direct"], "--orders", "4"]),
    "direct, abstain": (("medmcqa",), [*METHODS["direct"], "--abstain", "true"]),
    "search_r1, trained, strict_queries": (
        ("medmcqa",),
        [*METHODS["search_r1, trained"], "--dataset.rules", "[strict_queries]"],
    ),
}
# What fits a 135M model on two cores: short turns, a passage a search, two searches and an answer;
# float32, so that the scores do not depend on the machine.
COMMON = [
    *("--model.dtype", "float32", "--engine.max_tokens", "48", "--engine.max_episodes", "100"),
    *("--env.top_k", "1", "--env.max_turns", "3", "--env.max_observation_tokens", "192"),
    *("--env.max_context_tokens", "1000"),
]
# Columns of the CSV that stand in summary.json under the same name.
PLAIN = ("n", "infra_errors", "searches_mean", "tokens_mean", "invalid_rate", "answered_rate")
# Those that stand there as {mean, low, high}, of which the mean is kept; empty where there is none.
MEANS = ("f1", "evidence_recall", "accuracy_all_orders", "coverage", "accuracy_answered")
COLUMNS = ("method", "dataset", "score", "low", "high", *PLAIN, *MEANS, "flags")

Row = dict[str, str]
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Cell:
    """One evaluation.

    Attributes:
        method: A key of `METHODS` or `OPTIONS`.
        dataset: A key of `SETS`, or one of `WORLDS`.
        folder: Of its results.
        flags: Of eval.py, but for --out.
    """

    method: str
    dataset: str
    folder: Path
    flags: list[str]

    @property
    def key(self) -> Key:
        """What it is known by: with another flag it is another cell."""
        return (self.method, self.dataset, shlex.join(self.flags))

    def row(self) -> Row | None:
        """Its row of the CSV; None before it has a result, and where every episode failed."""
        file = self.folder / "summary.json"
        if not file.exists():
            return None
        summary = json.loads(file.read_text(encoding="utf-8"))
        score = summary.get("accuracy") or summary.get("em")
        if score is None:
            return None
        method, dataset, flags = self.key
        known = {"method": method, "dataset": dataset, "flags": flags}
        known |= {"score": score["mean"], "low": score["low"], "high": score["high"]}
        known |= {name: summary[name] for name in PLAIN}
        known |= {name: summary[name]["mean"] for name in MEANS if name in summary}
        return {name: _short(known.get(name, "")) for name in COLUMNS}


@dataclass(frozen=True, slots=True)
class Plan:
    """Which cells there are.

    Attributes:
        data: Folder of the sample data.
        out: Folder of results and indexes.
        questions: The most questions of a cell.
        runs: What stands for a run in braces; the rows of other runs are left out.
    """

    data: Path
    out: Path
    questions: int
    runs: Mapping[str, str]

    def cells(self, methods: Iterable[str], sets: Sequence[str]) -> Iterator[Cell]:
        """The cells, row by row; the cheap rows come first."""
        for method in methods:
            wanted: Iterable[str] = [*SETS, *WORLDS]
            if method in OPTIONS:
                wanted, flags = OPTIONS[method]
            else:
                flags = METHODS[method]
            try:
                filled = [flag.format_map(self.runs) for flag in flags]
            except KeyError:
                continue
            for name in sets:
                if name in wanted and not (method == "oracle" and name in NO_EVIDENCE):
                    yield self._cell(method, name, filled)

    def index(self, corpus: str) -> Path:
        """The index folder of a corpus."""
        return self.out / "indexes" / Path(corpus).parent.name

    def _cell(self, method: str, name: str, flags: Sequence[str]) -> Cell:
        limits = [*COMMON, "--dataset.limit", str(self.questions)]
        folder = self.out / name / method.replace(", ", "-")
        questions = self._questions(name, method)
        if "--agent" in flags and name in SETS and SETS[name][1] != TRAINED_OVER:
            questions += ["--retriever.corpus", "null"]  # its run names another one
        return Cell(method, name, folder, [*flags, *questions, *limits])

    def _questions(self, name: str, method: str) -> list[str]:
        if name in WORLDS:
            return ["--dataset.name", name, "--dataset.split", "test", "--retriever.name", "bm25s"]
        file, corpus = SETS[name]
        # The index is opened in no time; the ceiling reads the corpus itself.
        engine = ["--retriever.name", "index", "--retriever.path", str(self.index(corpus))]
        if method == "oracle":
            engine = ["--retriever.name", "empty", "--retriever.corpus", str(self.data / corpus)]
        # The same questions in every row, whichever order the file has.
        chosen = ["--dataset.path", str(self.data / file), "--dataset.subset_seed", "0"]
        if name in TRAINED_ON:
            chosen += ["--dataset.split", "test"]
        return ["--dataset.name", name, *chosen, *engine]


def key_of(row: Row) -> Key:
    """As `Cell.key`."""
    return (row["method"], row["dataset"], row["flags"])


def read(file: Path) -> list[Row]:
    """The rows of a CSV that `write` wrote; none without it."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def write(file: Path, rows: Iterable[Row]) -> None:
    """Write the CSV, whole or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, text.getvalue())


def table(rows: Iterable[Row]) -> str:
    """The headline metric with its interval, method by set, in Markdown."""
    scores = {
        (row["method"], row["dataset"]): "{:.3f} [{:.3f}, {:.3f}]".format(
            *(float(row[name]) for name in ("score", "low", "high"))
        )
        for row in rows
    }
    sets = [name for name in [*SETS, *WORLDS] if any(name == dataset for _, dataset in scores)]
    lines = [f"| method | {' | '.join(sets)} |", "|---" * (len(sets) + 1) + "|"]
    for method in METHODS:
        if any(method == known for known, _ in scores):
            row = [scores.get((method, name), "-") for name in sets]
            lines.append(f"| {method} | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def effects(rows: Iterable[Row]) -> str:
    """What each medical option changes, against the same method without it, in Markdown.

    Nothing where no option was played.
    """
    known = {(row["method"], row["dataset"]): row for row in rows}
    names = ("score", "invalid_rate", "accuracy_all_orders", "coverage", "accuracy_answered")
    titles = " | ".join(name.replace("_", " ") for name in names)
    lines: list[str] = []
    for option, (sets, _) in OPTIONS.items():
        method = option.rpartition(", ")[0]
        for name in sets:
            if (option, name) in known and (method, name) in known:
                values = [known[option, name][column] or "-" for column in names]
                without = known[method, name]["score"]
                lines.append(f"| {option} | {name} | {without} | {' | '.join(values)} |")
    head = [f"| option | set | score without | {titles} |", "|---" * (3 + len(names)) + "|"]
    return "\n".join([*head, *lines]) + "\n" if lines else ""


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
