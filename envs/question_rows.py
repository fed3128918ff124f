"""Question files to rows: JSON in its layouts, JSON Lines, Parquet, and tables of text."""

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from retrieval.errors import InputError
from retrieval.rows import SUFFIXES, jsonl_rows, read_rows

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True, slots=True)
class Layout:
    """How a publisher lays the rows out in a file.

    Attributes:
        parts: The keys under which a JSON object may hold its rows; the first that is there holds
            them, as a list or as {id: row}.
        by_id: A JSON object without such a key is itself {id: row}.
        header: The names of a table's columns where the file does not begin with them.
    """

    parts: tuple[str, ...] = ()
    by_id: bool = False
    header: tuple[str, ...] = ()


def file_rows(
    path: Path, columns: Sequence[str], layout: Layout | None = None
) -> Iterator[tuple[str, object]]:
    """The rows of a file, each with its place ("line 7") for messages.

    Args:
        path: A `.jsonl`, `.json` (either may end in `.gz`), `.parquet`, `.csv` or `.tsv` file. A
            `.json` file may hold one object a line, as MedMCQA's do.
        columns: What a Parquet file is read for.
        layout: Where the rows are; None for a list, or one a line.

    Raises:
        InputError: The file cannot be read; the message names it and the line.
    """
    layout = layout or Layout()
    name = path.name.lower()
    if name.endswith((".json", ".json.gz")):
        return _json_rows(path, layout)
    if path.suffix.lower() in _DELIMITERS:
        return _table_rows(path, layout.header)
    if path.exists() and not name.endswith(SUFFIXES):
        known = ", ".join((".json", ".json.gz", *SUFFIXES, *_DELIMITERS))
        raise InputError(f"{path}: unknown format; the name must end in one of {known}")
    return read_rows(path, columns)


def _json_rows(path: Path, layout: Layout) -> Iterator[tuple[str, object]]:
    text = _text(path)
    if _one_object_a_line(text):
        yield from jsonl_rows(path)
        return
    value = parsed(path, text)
    name = ""
    if isinstance(value, dict):
        name, value = _part(path, value, layout)
    if isinstance(value, dict):
        for key, row in value.items():
            place = f"{name}/{key}" if name else key
            yield place, {"id": key, **row} if isinstance(row, dict) else row
    elif isinstance(value, list):
        for number, row in enumerate(value, 1):
            yield f"item {number}", row
    else:
        raise InputError(f"{path}: holds a JSON {type(value).__name__}; want a list of questions")


def _part(path: Path, value: dict[str, object], layout: Layout) -> tuple[str, object]:
    """The part of a JSON object that holds the rows, and its key."""
    for name in layout.parts:
        if isinstance(value.get(name), dict | list):
            return name, value[name]
    if layout.by_id:
        return "", value
    found = ", ".join(list(value)[:12])
    wanted = " or ".join(map(repr, layout.parts)) or "at all"
    raise InputError(f"{path}: no subset {wanted} of questions by id; it has {found}")


def _one_object_a_line(text: str) -> bool:
    """Whether the first line is an object of its own, and more follows."""
    first, _, rest = text.partition("\n")
    if not first.startswith("{") or not rest.strip():
        return False
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return False
    return True


def parsed(path: Path, text: str | None = None) -> object:
    """The value of a JSON file.

    Raises:
        InputError: The file cannot be read or is no JSON.
    """
    try:
        return json.loads(_text(path) if text is None else text)
    except json.JSONDecodeError as error:
        hint = (
            "name it .jsonl if it has one object a line" if error.msg == "Extra data" else "mend it"
        )
        raise InputError(f"{path}: line {error.lineno}: not JSON ({error.msg}); {hint}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); mend it") from error


def _text(path: Path) -> str:
    """The text of a JSON file, unpacked where its name ends in .gz."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        data = path.read_bytes()
        if path.suffix.lower() == ".gz":
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: truncated or corrupt gzip ({error}); fetch it again") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not JSON in UTF-8 ({error}); mend it") from error


def _table_rows(path: Path, header: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    """A .csv or .tsv file with quotes as spreadsheets write them; a row ends at its place."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, delimiter=_DELIMITERS[path.suffix.lower()])
            names = header or tuple(next(lines, ()))
            for cells in lines:
                place = f"line {lines.line_num}"
                if cells and len(cells) != len(names):
                    raise InputError(
                        f"{path}: {place}: {len(cells)} cells where {len(names)} belong "
                        f"({', '.join(names)})"
                    )
                if cells:
                    yield place, dict(zip(names, cells, strict=True))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a table in UTF-8 ({error}); convert it") from error
    except csv.Error as error:
        raise InputError(f"{path}: not a table of text ({error}); mend it") from error
