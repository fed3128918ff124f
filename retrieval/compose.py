"""An engine that stands on another: how its user names that other one."""

from pathlib import Path

from . import plugins
from .corpus import Corpus
from .errors import InputError
from .index import MANIFEST, PACKAGE, open_index
from .types import Retriever


def open_engine(spec: str, corpus: Corpus | None) -> Retriever:
    """An engine with its default settings, or an index folder.

    Args:
        spec: A name of `retrieval.retrievers` or a dotted module name; or a folder that
            `retrieval.build_index` made.
        corpus: What a named engine indexes; of a folder, the corpus it must be of. None for
            whichever a folder is of.

    Raises:
        InputError: No such engine or folder, or no corpus for an engine that needs one.
    """
    if is_index(spec):
        return open_index(Path(spec), corpus).retriever
    module = plugins.load(PACKAGE, spec)
    if corpus is None and getattr(module, "NEEDS_CORPUS", True):
        raise InputError(f"{spec} needs a corpus: give a corpus file, or an index folder instead")
    retriever: Retriever = module.build(module.Config(), corpus)
    return retriever


def is_index(spec: str) -> bool:
    """Whether a name is that of an index folder.

    Raises:
        InputError: It can only be a folder, and is none.
    """
    if (Path(spec) / MANIFEST).exists():
        return True
    if "/" in spec:
        raise InputError(f"{spec}: no index; make one with python -m retrieval.build_index")
    return False
