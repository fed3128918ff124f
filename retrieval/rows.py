"""Files to rows: JSON Lines, plain or gzipped, and Parquet, read as a stream."""

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow
import pyarrow.parquet

from .errors import InputError

SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")

# Large enough to amortise a call, small enough to keep memory flat on long passages.
_PARQUET_BATCH_ROWS = 4096


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, object]]:
    """Stream the rows of a file; its suffix says the format.

    Args:
        path: A file with one of `SUFFIXES`, in any letter case.
        columns: The Parquet columns to read, so that a corpus that carries embeddings does not
            load them. A JSON row comes whole.

    Yields:
        (place, row): place is "line 7" or "row 7", counted from 1 as an editor does. Blank lines
        of JSON Lines are skipped but counted.

    Raises:
        InputError: The file is missing, unreadable, corrupt or of an unknown format, or a line is
            not JSON in UTF-8.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if not path.is_file():
        raise InputError(f"{path}: not a file; give one that ends in {', '.join(SUFFIXES)}")
    name = path.name.lower()
    if name.endswith((".jsonl", ".jsonl.gz")):
        return jsonl_rows(path)
    if name.endswith(".parquet"):
        return _parquet_rows(path, columns)
    raise InputError(f"{path}: unknown format; the name must end in one of {', '.join(SUFFIXES)}")


def jsonl_rows(path: Path) -> Iterator[tuple[str, object]]:
    """The objects of a JSON Lines file, whatever its name; a byte order mark is dropped.

    Raises:
        InputError: As `read_rows`.
    """
    number = 0
    try:
        with _opened(path) as file:
            # Bytes split at "\n" only: U+2028 and its like may stand inside a JSON string.
            for number, line in enumerate(file, 1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                if line.strip():
                    yield f"line {number}", _parsed(line, path, number)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"{path}: truncated or corrupt gzip after line {number} ({error}); fetch it again"
        ) from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error


def _opened(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked where its name ends in .gz."""
    if path.name.lower().endswith(".gz"):
        return cast(BinaryIO, gzip.open(path))
    return path.open("rb")


def _parsed(line: bytes, path: Path, number: int) -> object:
    """One line of JSON Lines as a value; InputError where it is not JSON in UTF-8."""
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: line {number}: invalid UTF-8 at byte {error.start + 1}; convert it to UTF-8"
        ) from error
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a bare ValueError
        cause = str(error)
        if isinstance(error, json.JSONDecodeError):
            cause = f"{error.msg} at character {error.pos + 1}"
        raise InputError(
            f"{path}: line {number}: not JSON ({cause}); each line must be one JSON object"
        ) from error


def _parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, object]]:
    """Parquet, batch by batch; InputError where it has none of `columns`."""
    done = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            present = file.schema_arrow.names
            wanted = [name for name in columns if name in present]
            if not wanted:
                raise InputError(
                    f"{path}: has the columns {', '.join(present)}; rename to {', '.join(columns)}"
                )
            for batch in file.iter_batches(batch_size=_PARQUET_BATCH_ROWS, columns=wanted):
                for number, row in enumerate(batch.to_pylist(), done + 1):
                    yield f"row {number}", row
                done += batch.num_rows
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: invalid UTF-8 within {_PARQUET_BATCH_ROWS} rows after row {done}; "
            "write it from valid strings"
        ) from error
    except (pyarrow.ArrowException, OSError) as error:
        cause = str(error).partition("\n")[0]
        raise InputError(
            f"{path}: cannot be read as Parquet after row {done} ({cause}); fetch it again"
        ) from error
