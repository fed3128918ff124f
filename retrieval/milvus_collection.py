"""A Milvus collection that holds a corpus: made, filled, and recognised when it is met again.

Rows are numbered 0, 1, 2, ... in corpus order, which is their primary key, and inserted in batches.
So a fill that was stopped goes on where the row count says, and a collection is whole when it has
as many rows as its corpus has passages. What a collection is of (fingerprint, settings) stands in
its description; Milvus Lite keeps no descriptions, there it is a property.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from .corpus import Corpus
from .errors import InputError, RetrievalError
from .types import Passage

TOKEN_VARIABLE = "MILVUS_TOKEN"
# Milvus' own limits (milvus.io/docs/limitations.md): bytes of a text, hits of a query.
MAX_TEXT_BYTES, MAX_HITS = 65_535, 16_384
# At the longest texts a batch stays below the 64 MB that one request may have.
BATCH_ROWS = 256
_ABOUT = "about"

Terms = Callable[[Passage], str]
Vectors = Callable[[Sequence[Passage]], Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """What a collection holds beside the passages.

    Attributes:
        settings: JSON that says how terms and vectors are made; a collection of other settings is
            not the one that is looked for.
        terms: Passage -> its words, for Milvus' BM25 function; None for no full text.
        bm25: Its parameters k1 and b.
        vectors: Passages -> unit vectors (passages, dimensions); None for no dense search.
        dimensions: Of the vectors.
        index: Milvus' name of the vector index.
    """

    settings: Mapping[str, Any]
    terms: Terms | None
    bm25: tuple[float, float]
    vectors: Vectors | None
    dimensions: int
    index: str


def is_local(uri: str) -> bool:
    """Whether Milvus Lite opens this path, inside this process."""
    return not uri.startswith(("http://", "https://"))


def connect(uri: str, timeout_s: float) -> Any:
    """A `pymilvus.MilvusClient`.

    Args:
        uri: A path that ends in .db, or the address of a server; its token, if it wants one, is
            read from the environment variable MILVUS_TOKEN.
        timeout_s: For the connection.

    Raises:
        InputError: No server answers, or the file cannot be opened.
    """
    # Here: pymilvus takes a second to load, and every command lists this folder.
    from pymilvus import MilvusClient

    if is_local(uri):
        if not uri.endswith(".db"):
            raise InputError(f"uri is {uri!r}: give a path that ends in .db, or http://HOST:PORT")
        Path(uri).absolute().parent.mkdir(parents=True, exist_ok=True)
    # Both log a traceback beside each error that they raise.
    for logger in ("milvus_lite", "pymilvus"):
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    try:
        client = MilvusClient(uri, token=os.environ.get(TOKEN_VARIABLE, ""), timeout=timeout_s)
        # Clients share connections: one to a server that has died since may still be there.
        client.get_server_version(timeout=timeout_s)
        return client
    except Exception as error:  # pymilvus, grpc and Milvus Lite each have their own kinds
        remedy = (
            "it may be open in another process, of which Milvus Lite allows one"
            if is_local(uri)
            else f"start the server, and put its token into {TOKEN_VARIABLE} if it wants one"
        )
        raise InputError(f"uri: {uri} cannot be opened ({reason(error)}); {remedy}") from error


def release(uri: str) -> None:
    """Let go of a local file that nobody searches any more, so that it can be moved or removed."""
    from milvus_lite.server_manager import server_manager_instance

    server_manager_instance.release_server(uri)


def about(client: Any, name: str) -> dict[str, Any] | None:
    """What a collection says it is: {fingerprint, passages, ...settings}; None without one.

    Raises:
        InputError: There is a collection of that name, which this program has not made.
    """
    if not client.has_collection(name):
        return None
    described = client.describe_collection(name)
    said = described.get("description") or described.get("properties", {}).get(_ABOUT)
    try:
        found = dict(json.loads(said))
        found |= {"fingerprint": str(found["fingerprint"]), "passages": int(found["passages"])}
    except (TypeError, ValueError, KeyError):
        raise InputError(
            f"collection {name!r} holds something else; give another name, or drop it"
        ) from None
    return found


def count(client: Any, name: str) -> int:
    """Rows that a search would see."""
    rows = client.query(name, filter="", output_fields=["count(*)"])
    return int(rows[0]["count(*)"])


def open_collection(
    client: Any, name: str, corpus: Corpus | None, layout: Layout
) -> dict[str, Any]:
    """Make the collection whole if it is not, and ready for searching; returns its `about`.

    Raises:
        InputError: Of another corpus or other settings; not whole, and no corpus is given; a text
            is too long for Milvus; or rows were added by someone else.
    """
    said = about(client, name)
    if corpus is None and (said is None or count(client, name) < said["passages"]):
        raise InputError(f"collection {name!r} is not whole: give the corpus to fill it with")
    if said is not None:
        if corpus is not None and said["fingerprint"] != corpus.fingerprint:
            raise InputError(
                f"collection {name!r} is of another corpus ({said['fingerprint'][:19]}..., this "
                f"one is {corpus.fingerprint[:19]}...); give another name, or drop it"
            )
        wrong = {key: said.get(key) for key, v in layout.settings.items() if said.get(key) != v}
        if wrong:
            raise InputError(
                f"collection {name!r} was made with {wrong}; set the same, or give another name"
            )
    if corpus is not None:
        _fill(client, name, corpus, layout)
    client.load_collection(name)
    return dict(about(client, name) or {})


def _fill(client: Any, name: str, corpus: Corpus, layout: Layout) -> None:
    """Make the collection and fill it, or go on with what a stopped fill left."""
    passages = corpus.passages
    if not client.has_collection(name):
        identity = {"fingerprint": corpus.fingerprint, "passages": len(passages)}
        _create(client, name, identity, layout)
    done = count(client, name)
    if done == len(passages):
        return
    # The last batch may have arrived in part: it is sent again, as an update.
    start = max(0, done // BATCH_ROWS - 1) * BATCH_ROWS
    bar = tqdm(
        total=len(passages),
        initial=start,
        desc=f"fill {name}",
        unit=" passages",
        delay=1,
        disable=None,
    )
    with bar:
        for first in range(start, len(passages), BATCH_ROWS):
            batch = passages[first : first + BATCH_ROWS]
            rows = _rows(batch, first, layout)
            write = client.upsert if first < done else client.insert
            write(name, rows)
            bar.update(len(batch))
    client.flush(name)
    found = count(client, name)
    if found != len(passages):
        raise InputError(
            f"collection {name!r} has {found} rows for {len(passages)} passages; drop it, and let "
            "one process fill it"
        )


def _create(client: Any, name: str, identity: Mapping[str, Any], layout: Layout) -> None:
    from pymilvus import DataType, Function, FunctionType

    said = json.dumps({**identity, **layout.settings})
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False, description=said)
    schema.add_field("position", DataType.INT64, is_primary=True)
    for text in ("id", "title", "text"):
        schema.add_field(text, DataType.VARCHAR, max_length=MAX_TEXT_BYTES)
    indexes = client.prepare_index_params()
    if layout.terms is not None:
        schema.add_field(
            "terms",
            DataType.VARCHAR,
            max_length=MAX_TEXT_BYTES,
            enable_analyzer=True,
            analyzer_params={"tokenizer": "standard"},
        )
        schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
        schema.add_function(
            Function(
                name="bm25",
                function_type=FunctionType.BM25,
                input_field_names=["terms"],
                output_field_names=["sparse"],
            )
        )
        k1, b = layout.bm25
        indexes.add_index(
            "sparse",
            index_type="SPARSE_INVERTED_INDEX",
            metric_type="BM25",
            # Nested, as pymilvus' older interface sends it: servers take both, but Milvus Lite 3.2
            # ignores the flat form and computes with its own 1.5 and 0.75.
            params={"params": {"bm25_k1": k1, "bm25_b": b}},
        )
    if layout.vectors is not None:
        schema.add_field("dense", DataType.FLOAT_VECTOR, dim=layout.dimensions)
        indexes.add_index("dense", index_type=layout.index, metric_type="IP")
    client.create_collection(
        # One shard: rows are then visible in the order in which they were sent.
        name,
        schema=schema,
        index_params=indexes,
        consistency_level="Strong",
        num_shards=1,
    )
    if not client.describe_collection(name).get("description"):
        client.alter_collection_properties(name, properties={_ABOUT: said})


def _rows(batch: Sequence[Passage], first: int, layout: Layout) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"position": first + place, "id": p.id, "title": p.title, "text": p.text}
        for place, p in enumerate(batch)
    ]
    if layout.terms is not None:
        for row, passage in zip(rows, batch, strict=True):
            row["terms"] = layout.terms(passage)
    for row in rows:
        for field in ("id", "title", "text", "terms"):
            if len(row.get(field, "").encode()) > MAX_TEXT_BYTES:
                raise InputError(
                    f"passage {row['id']!r:.80}: its {field} has more than {MAX_TEXT_BYTES} bytes, "
                    "Milvus' limit; split the passage"
                )
    if layout.vectors is not None:
        for row, vector in zip(rows, layout.vectors(batch), strict=True):
            row["dense"] = vector.tolist()
    return rows


@contextmanager
def failures_as(kind: type[InputError] | type[RetrievalError], uri: str) -> Iterator[None]:
    """Whatever a server or its client raises is an error of this kind."""
    try:
        yield
    except (InputError, RetrievalError):
        raise
    except Exception as error:  # pymilvus, grpc and Milvus Lite each have their own kinds
        raise kind(f"milvus at {uri}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """What went wrong, in one line."""
    said = getattr(error, "message", None) or str(error) or repr(error)
    return " ".join(str(said).split())[:300]
