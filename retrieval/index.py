"""Index folders: the passages, what an engine made of them, and a manifest that vouches for both.

    indexes/x/
      manifest.json    written last: a folder without one is not an index
      passages.jsonl   the corpus (see retrieval.store)
      offsets.bin
      engine/          the engine's own files; empty for engines that index when they are opened

A build goes on in `indexes/x.partial` and takes its final name when it is whole. Killed, stopped by
the disk or refused by the engine, it leaves that folder, and the next build of the same corpus and
settings goes on with it.
"""

import dataclasses
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from . import plugins
from .corpus import Corpus
from .errors import InputError
from .store import PassageStore, unique_passages, write_store
from .types import Retriever

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
        InputError: `out` exists, another build makes it, the corpus is wrong, the engine refuses
            it, or the disk is full or may not be written.
    """
    if out.exists():
        raise InputError(f"{out}: exists already; give another folder, or remove it")
    _stamp(corpus)
    module = plugins.load(PACKAGE, name)
    partial = out.with_name(f"{out.name}.partial")
    try:
        with _claimed(partial):
            return _build(corpus, partial, out, module, name, config)
    except OSError as error:
        raise InputError(
            f"{partial}: the build stopped ({error.strerror or error}); once that is mended, the "
            "same command goes on with it"
        ) from error


def _build(
    corpus: Path, partial: Path, out: Path, module: ModuleType, name: str, config: Any
) -> dict[str, Any]:
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
    passages = _corpus(partial, stored)
    if hasattr(module, "write"):
        module.write(config, passages, engine)
    for note in (_PLAN, _CORPUS):
        (partial / note).unlink()
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
        if known:
            _check(manifest)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{folder}: no index; make one with python -m retrieval.build_index"
        ) from None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{folder}: {MANIFEST} is damaged ({error!r}); build it again") from error
    if not known:
        raise InputError(f"{folder}: of another version of this program; build it again")
    return dict(manifest)


def _check(manifest: dict[str, Any]) -> None:
    """Raise a TypeError or KeyError where it is not what `build_index` writes."""
    kinds = {"retriever": str, "config": dict, "corpus": dict, "versions": dict}
    stored = {"fingerprint": str, "passages": int}
    for part, expected in ((manifest, kinds), (manifest["corpus"], stored)):
        for key, kind in expected.items():
            if not isinstance(part[key], kind):
                raise TypeError(f"{key} is no {kind.__name__}")


@contextmanager
def _claimed(partial: Path) -> Iterator[None]:
    """Make the folder, and keep other builds out of it for as long as this one lives."""
    partial.mkdir(parents=True, exist_ok=True)
    folder = os.open(partial, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            # Goes with the process, even a killed one.
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{partial}: another build is at work there; wait for it") from error
        yield
    finally:
        os.close(folder)


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
    source = {"format": FORMAT, "file": str(corpus.resolve()), **_stamp(corpus)}
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
        if known["source"] == source:
            _corpus(folder, known["stored"])
            return dict(known["stored"])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        pass  # nothing there, or not what was written: start anew
    _empty(folder)
    try:
        count, fingerprint = write_store(unique_passages(corpus), folder)
    except InputError:
        shutil.rmtree(folder)  # the corpus must change first: nothing to go on with
        raise
    stored = {"fingerprint": fingerprint, "passages": count}
    _write_json(file, {"source": source, "stored": stored})
    return stored


def _empty(folder: Path) -> None:
    """Not the folder itself, which is claimed."""
    for left in folder.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()


def _stamp(file: Path) -> dict[str, int]:
    if not file.is_file():
        raise InputError(f"{file}: no such file; give a corpus file")
    status = file.stat()
    return {"bytes": status.st_size, "modified_ns": status.st_mtime_ns}


def _same_plan(folder: Path, plan: dict[str, Any]) -> None:
    """Drop what a killed build of another plan left of its engine."""
    file = folder / _PLAN
    text = json.dumps(plan, sort_keys=True)
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        shutil.rmtree(folder / ENGINE, ignore_errors=True)
        file.write_text(text, encoding="utf-8")


def folder_bytes(folder: Path) -> int:
    """Bytes of all files in a folder and below."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


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
