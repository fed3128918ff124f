"""A corpus: its passages, checked row by row as they are read, and a fingerprint of them."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from .errors import InputError
from .rows import read_rows
from .types import Passage

# MedRAG rows hold `contents` beside `content`, so `contents` is looked at last.
_TEXT_FIELDS = ("text", "content", "contents")
_SCHEMAS = "{id, title, text}, {id, title, content} or {id, contents}"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Passages in a fixed order; two corpora are equal when their fingerprints are.

    Attributes:
        passages: At least one; no id occurs twice. In memory, or those of an index folder.
        fingerprint: "sha256:" and 64 hex digits over ids, titles and texts in order: the same
            passages have the same fingerprint, whichever file or generator they come from.
    """

    passages: Sequence[Passage] = field(repr=False, compare=False)
    fingerprint: str

    @classmethod
    def of(cls, passages: Iterable[Passage]) -> "Corpus":
        """Check passages that were made in memory and fingerprint them.

        Raises:
            InputError: There are none, an id occurs twice, or a text is not valid Unicode.
        """
        passages = tuple(passages)
        if not passages:
            raise InputError("the corpus is empty: give at least one passage")
        seen: set[str] = set()
        for passage in passages:
            if passage.id in seen:
                raise InputError(f"passage id {passage.id!r} occurs twice: ids must be unique")
            seen.add(passage.id)
        return cls(passages, _fingerprint(passages))


def read_corpus(path: str | Path, progress: bool = True) -> Corpus:
    r"""Read a corpus file.

    Rows follow one of three schemas: `{id, title, text}`; Search-R1's `{id, contents}`, where
    contents is the quoted title, a newline and the text; MedRAG's `{id, title, content}`. An id may
    be an integer; a title may be empty. Other fields are ignored.

    Args:
        path: A `.jsonl`, `.jsonl.gz` or `.parquet` file.
        progress: Show a bar on stderr where that is a terminal.

    Raises:
        InputError: The file cannot be read, or a row is wrong; the message names file and line.
    """
    path = Path(path)
    places: dict[str, str] = {}
    passages = []
    for place, passage in stream_corpus(path, progress):
        if passage.id in places:
            raise InputError(
                f"{path}: {place}: id {passage.id!r} stands at {places[passage.id]} already; "
                "ids must be unique"
            )
        places[passage.id] = place
        passages.append(passage)
    if not passages:
        raise InputError(f"{path}: no passages; the file is empty")
    return Corpus(tuple(passages), _fingerprint(passages))


def stream_corpus(path: str | Path, progress: bool = True) -> Iterator[tuple[str, Passage]]:
    """The passages of a corpus file one by one; ids are not compared.

    Args:
        path: As for `read_corpus`.
        progress: Show a bar on stderr where that is a terminal.

    Yields:
        (place, passage); place is "line 7" or "row 7".

    Raises:
        InputError: The file cannot be read, or a row is wrong; the message names file and line.
    """
    path = Path(path)
    rows = read_rows(path, ("id", "title", *_TEXT_FIELDS))
    shown = tqdm(
        rows, desc=f"read {path.name}", unit=" passages", disable=None if progress else True
    )
    for place, row in shown:
        try:
            yield place, passage_of(row)
        except InputError as error:
            raise InputError(f"{path}: {place}: {error}") from None


def _fingerprint(passages: Iterable[Passage]) -> str:
    digest = hashlib.sha256()
    for passage in passages:
        add_to_digest(digest, passage)
    return f"sha256:{digest.hexdigest()}"


def add_to_digest(digest: "hashlib._Hash", passage: Passage) -> None:
    """Length-prefixed, so that no two lists of passages share an encoding.

    Raises:
        InputError: A text is not valid Unicode.
    """
    for part in (passage.id, passage.title, passage.text):
        encoded = _utf8(part, f"passage {passage.id!r}")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)


def _utf8(text: str, culprit: str) -> bytes:
    """Encode, or name the culprit: JSON can spell a lone surrogate, which no tokenizer takes."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{culprit} is not valid Unicode ({error.reason} at character {error.start + 1})"
        ) from error


def passage_of(row: object) -> Passage:
    """The passage of one row of any schema.

    Raises:
        InputError: The row is wrong; the message says nothing of file and line.
    """
    if not isinstance(row, dict):
        raise InputError(f"a row must be an object, {_SCHEMAS}, not {_kind(row)}")
    identifier = _identifier(row)
    name = next((name for name in _TEXT_FIELDS if row.get(name) is not None), None)
    if name is None:
        keys = ", ".join(repr(key) for key in list(row)[:10]) or "no fields"
        raise InputError(f"no text: a row is {_SCHEMAS}; this one has {keys}")
    body = _string(row, name)
    if name == "contents":
        title, body = title_and_text(body)
    else:
        title = _string(row, "title")
    if not body.strip():
        raise InputError(f"field {name!r} holds no text: drop the row or fill it")
    return Passage(identifier, title, body)


def _identifier(row: dict[str, Any]) -> str:
    """The id as text; an integer counts as text, a bool does not."""
    value = row.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    identifier = _string(row, "id")
    if not identifier:
        raise InputError("field 'id' is empty: every passage needs its own")
    return identifier


def _string(row: dict[str, Any], name: str) -> str:
    """The field `name`, which must be there and be a valid string."""
    value = row.get(name)
    if value is None:
        raise InputError(f"field {name!r} is missing: a row is {_SCHEMAS}")
    if not isinstance(value, str):
        raise InputError(f"field {name!r} must be a string, not {_kind(value)}")
    _utf8(value, f"field {name!r}")
    return value


def title_and_text(contents: str) -> tuple[str, str]:
    """Search-R1's contents: the title, usually in quotes, on its own line, then the text."""
    first, _, text = contents.partition("\n")
    title = first.strip()
    if len(title) >= 2 and title[0] == title[-1] == '"':
        title = title[1:-1]
    return title, text


def _kind(value: object) -> str:
    """A value's type in the words of JSON."""
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", list: "array"}
    return kinds.get(type(value), "null" if value is None else type(value).__name__)
