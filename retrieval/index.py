"""Index folders: the passages, what an engine made of them, and a manifest that vouches for both.

    indexes/x/
      manifest.json    written last: a folder without one is not an index
      passages.jsonl   the corpus (see retrieval.store)
      offsets.bin
      engine/          the engine's own files; empty for engines that index when they are opened

A build goes on in `indexes/x.partial` and takes its final name when it is whole. Killed, it leaves
that folder, with which the next build of the same corpus and settings goes on.
"""

import dataclasses
import hashlib
import json
import os
import shutil
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from . import plugins
from .corpus import Corpus, stream_corpus
from .errors import InputError
from .store import PassageStore, write_store
from .types import Passage, Retriever

PACKAGE = "retrieval.retrievers"
FORMAT = 1
MANIFEST, ENGINE, _CORPUS, _PLAN = "manifest.json", "engine", "corpus.json", "plan.json"
# Whose release decides what an index is; a package that is not installed has no version.
_LIBRARIES = (
    *("faiss-cpu", "pyserini", "bm25s", "PyStemmer", "sentence-transformers"),
    *("pymilvus", "milvus-lite"),
)


@dataclass(frozen=True, slots=True)
class Index:
    """An index folder that has been opened.

    Attributes:
        retriever: Ready to search.
        corpus: Its passages.
        manifest: What manifest.json holds.
    """

    retriever: Retriever
    corpus: Corpus
    manifest: dict[str, Any]


def build_index(corpus: Path, out: Path, name: str, config: Any) -> dict[str, Any]:
    """Build an index folder; whole or not at all.

    Args:
        corpus: A corpus file (`retrieval.corpus`).
        out: The folder to make; must not exist.
        name: The engine, of `retrieval.retrievers` or a dotted module name.
        config: An instance of its `Config`.

    Returns:
        The manifest.

    Raises:
        InputError: `out` exists, the corpus is wrong, or the engine refuses it.
    """
    if out.exists():
        raise InputError(f"{out}: exists already; give another folder, or remove it")
    module = plugins.load(PACKAGE, name)
    partial = out.with_name(f"{out.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    stored = _store(corpus, partial)
    plan = {
        "format": FORMAT,
        "retriever": name,
        "config": dataclasses.asdict(config),
        "corpus": stored,
        "versions": _versions(),
    }
    _same_plan(partial, plan)
    engine = partial / ENGINE
    engine.mkdir(exist_ok=True)
    if hasattr(module, "write"):
        module.write(config, _corpus(partial, stored), engine)
    for name_ in (_PLAN, _CORPUS):
        (partial / name_).unlink()
    _write_json(partial / MANIFEST, plan)
    partial.rename(out)
    return plan


def open_index(folder: Path, expected: Corpus | None = None) -> Index:
    """Open an index folder.

    Args:
        folder: Made by `build_index`.
        expected: The corpus it must be of; None for whichever it is.

    Raises:
        InputError: Not a whole index, one of another format or another corpus, or made by an
            engine that this installation lacks.
    """
    manifest = read_manifest(folder)
    stored = manifest["corpus"]
    if expected is not None and expected.fingerprint != stored["fingerprint"]:
        raise InputError(
            f"{folder}: was built of another corpus ({stored['fingerprint'][:19]}..., this one is "
            f"{expected.fingerprint[:19]}...); build it again, or give the corpus it was built of"
        )
    module = plugins.load(PACKAGE, manifest["retriever"])
    try:
        config = _config(module.Config, manifest["config"])
    except TypeError as error:
        raise InputError(f"{folder}: made by another version ({error}); build it again") from error
    corpus = _corpus(folder, stored)
    if hasattr(module, "read"):
        retriever = module.read(config, corpus, folder / ENGINE)
    else:
        retriever = module.build(config, corpus)
    return Index(retriever, corpus, manifest)


def read_manifest(folder: Path) -> dict[str, Any]:
    """What the manifest of an index folder says.

    Raises:
        InputError: Not an index folder, or one of another format.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        known = manifest["format"] == FORMAT
    except FileNotFoundError:
        raise InputError(
            f"{folder}: no index; make one with python -m retrieval.build_index"
        ) from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{folder}: {MANIFEST} is damaged ({error!r}); build it again") from error
    if not known:
        raise InputError(f"{folder}: of another version of this program; build it again")
    return dict(manifest)


def _config(kind: type, saved: dict[str, Any]) -> Any:
    """A `Config` from JSON, which has lists for tuples."""
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in saved.items()})


def _corpus(folder: Path, stored: dict[str, Any]) -> Corpus:
    passages = PassageStore(folder)
    if len(passages) != stored["passages"]:
        raise InputError(
            f"{folder}: has {len(passages)} passages of {stored['passages']}; build it again"
        )
    return Corpus(passages, stored["fingerprint"])


def _store(corpus: Path, folder: Path) -> dict[str, Any]:
    """Copy the passages into the folder, unless they are there; {passages, fingerprint}."""
    file = folder / _CORPUS
    source = {"file": str(corpus.resolve()), **_stamp(corpus)}
    if file.exists():
        known = json.loads(file.read_text(encoding="utf-8"))
        if known["source"] == source:
            return dict(known["stored"])
        shutil.rmtree(folder)
        folder.mkdir()
    count, fingerprint = write_store(_unique(corpus), folder)
    stored = {"fingerprint": fingerprint, "passages": count}
    _write_json(file, {"source": source, "stored": stored})
    return stored


def _stamp(file: Path) -> dict[str, int]:
    if not file.is_file():
        raise InputError(f"{file}: no such file; give a corpus file")
    status = file.stat()
    return {"bytes": status.st_size, "modified_ns": status.st_mtime_ns}


def _unique(path: Path) -> Iterator[Passage]:
    """The passages of a file; 8 bytes of memory for each, to see that no id occurs twice."""
    hashes = array("Q")
    for _, passage in stream_corpus(path):
        hashes.append(_hash(passage.id))
        yield passage
    ordered = np.sort(np.frombuffer(hashes, dtype=np.uint64)) if hashes else np.empty(0)
    twice = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
    seen: dict[str, str] = {}
    for place, passage in stream_corpus(path) if twice else ():
        if _hash(passage.id) in twice:
            if passage.id in seen:
                raise InputError(
                    f"{path}: {place}: id {passage.id!r} stands at {seen[passage.id]} already; "
                    "ids must be unique"
                )
            seen[passage.id] = place


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _same_plan(folder: Path, plan: dict[str, Any]) -> None:
    """Drop what a killed build of another plan left of its engine."""
    file = folder / _PLAN
    text = json.dumps(plan, sort_keys=True)
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        shutil.rmtree(folder / ENGINE, ignore_errors=True)
        file.write_text(text, encoding="utf-8")


def _versions() -> dict[str, str]:
    found = {}
    for library in _LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return found


def _write_json(file: Path, value: Any) -> None:
    """Whole or not at all."""
    aside = file.with_name(f"{file.name}.new")
    with aside.open("w", encoding="utf-8") as out:
        json.dump(value, out, indent=2)
        out.flush()
        os.fsync(out.fileno())
    aside.replace(file)
