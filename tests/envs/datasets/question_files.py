"""Rows written to files as publishers name them."""

import csv
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from envs.types import Question
from retrieval import plugins

Rows = Sequence[dict[str, Any]]


def jsonl_file(path: Path, rows: Rows) -> str:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def json_file(path: Path, value: object) -> str:
    text = json.dumps(value)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def parquet_file(path: Path, rows: Rows) -> str:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return str(path)


def table_file(path: Path, rows: Sequence[Sequence[str]]) -> str:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows(rows)
    return str(path)


def questions(name: str, path: str | None, **settings: Any) -> tuple[Question, ...]:
    """The questions of the set of that name."""
    plugin = plugins.load("envs.datasets", name)
    return tuple(plugin.build(plugin.Config(path=path, **settings)).questions)
