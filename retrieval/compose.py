"""Engines made of engines: a part is a plug-in's name, or the index folder it is opened from."""

from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from . import plugins
from .corpus import Corpus
from .errors import InputError
from .index import MANIFEST, PACKAGE, read_manifest
from .types import Retriever


def open_engine(spec: str, corpus: Corpus | None) -> Retriever:
    """The engine that a specification names.

    Args:
        spec: An index folder; or the name of an engine, which then indexes the corpus with its
            default settings. A folder that is an index wins over an engine of the same name.
        corpus: What is searched; None for whatever the index folder holds.

    Raises:
        InputError: No such engine or index, an index of another corpus, or an engine that needs a
            corpus and gets none.
    """
    name, config = _named(spec)
    module = plugins.load(PACKAGE, name)
    if corpus is None and needs_corpus(module, config):
        raise InputError(f"{spec}: needs passages to index; give a corpus file or an index folder")
    retriever: Retriever = module.build(config, corpus)
    return retriever


def spec_needs_corpus(spec: str) -> bool:
    """Whether `open_engine(spec, None)` would ask for passages."""
    name, config = _named(spec)
    return needs_corpus(plugins.load(PACKAGE, name), config)


def needs_corpus(module: ModuleType, config: Any) -> bool:
    """Whether an engine must be given passages: `NEEDS_CORPUS` of its module, True by default.

    Where that depends on the settings, `NEEDS_CORPUS` is False (it can do without) and the module's
    `needs_corpus(config)` says whether these settings can.
    """
    if getattr(module, "NEEDS_CORPUS", True):
        return True
    return bool(module.needs_corpus(config)) if hasattr(module, "needs_corpus") else False


def fingerprint_of(retriever: Retriever, corpus: Corpus | None) -> str:
    """The fingerprint of the corpus that an engine searches."""
    searched: Any = retriever if corpus is None else corpus
    return str(searched.fingerprint)


def describe(spec: str) -> dict[str, Any]:
    """What an engine is, as JSON: equal for an engine by name and an index folder of it.

    Raises:
        InputError: No such engine or index.
    """
    if is_index(spec):
        manifest = read_manifest(Path(spec))
        return {"retriever": manifest["retriever"], "config": manifest["config"]}
    config = asdict(plugins.load(PACKAGE, spec).Config())
    plain = {key: list(v) if isinstance(v, tuple) else v for key, v in config.items()}
    return {"retriever": spec, "config": plain}


def is_index(spec: str) -> bool:
    """Whether a specification is an index folder."""
    return (Path(spec) / MANIFEST).is_file()


def _named(spec: str) -> tuple[str, Any]:
    """(plug-in, its Config)."""
    if not spec:
        raise InputError("an engine is missing: give its name or an index folder")
    if is_index(spec):
        return "index", plugins.load(PACKAGE, "index").Config(spec)
    if "/" in spec:
        read_manifest(Path(spec))  # says what an index folder is
    return spec, plugins.load(PACKAGE, spec).Config()
