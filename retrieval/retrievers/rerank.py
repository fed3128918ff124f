"""Re-ranking: a cheap first stage finds candidates, a costly model puts them in order.

    first stage -> the `depth` best -> scored one by one with the query -> the k best

The models are in `retrieval.cross_encoders`. The first stage decides what can be found at all, the
model only the order; a passage that the first stage does not find has no rank. The scores of the
first stage are dropped.

Every query's candidates are scored by themselves, so that an answer does not depend on the other
queries of its batch. Scores are rounded to 6 decimals, and equal ones ordered by passage id.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from .. import plugins
from ..compose import fingerprint_of, is_index, open_engine, spec_needs_corpus
from ..corpus import Corpus
from ..cross_encoders import load_scorer
from ..errors import InputError, RetrievalError
from ..hub import first_line
from ..index import PACKAGE
from ..ranking import check_k
from ..types import Hit, Retriever

NEEDS_CORPUS = False
_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class Config:
    """Settings.

    Attributes:
        first: The first stage: the name of an engine, which is used with its default settings, or
            an index folder.
        model: A cross-encoder: a hub name, a folder, or "embedded", which is the embedded
            bi-encoder (cosine) and no cross-encoder.
        depth: Candidates a query, >= 1; k where that is more.
        batch_size: Pairs that are scored together.
        device: Where the model runs: "auto", or a torch device such as "cpu" or "cuda:1".
    """

    first: str = "bm25s"
    model: str = "embedded"
    depth: int = 50
    batch_size: int = 32
    device: str = "auto"

    def __post_init__(self) -> None:
        for name in ("first", "model"):
            if not getattr(self, name):
                raise InputError(f"{name} is empty: name an engine or a folder, and a model")
        for name in ("depth", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: give at least 1")
        if self.first == "rerank":
            raise InputError("first is 'rerank': its own default first stage is bm25s; name that")


def needs_corpus(config: Config) -> bool:
    """Whether the first stage must be given passages."""
    return spec_needs_corpus(config.first)


def build(config: Config, corpus: Corpus | None) -> "Rerank":
    """Build or open the first stage, and load the model.

    Args:
        config: The settings.
        corpus: What is searched; None where `first` is an index folder, for its own.

    Raises:
        InputError: No such engine, folder or model.
    """
    first = open_engine(config.first, corpus)
    return Rerank(config, first, fingerprint_of(first, corpus))


def write(config: Config, corpus: Corpus, folder: Path) -> None:
    """Persist the first stage, where its engine does that."""
    module = _first(config)
    if module is not None and hasattr(module, "write"):
        module.write(module.Config(), corpus, folder)


def read(config: Config, corpus: Corpus, folder: Path) -> "Rerank":
    """Open what `write` made.

    Raises:
        InputError: As of the first stage, or no such model.
    """
    module = _first(config)
    if module is not None and hasattr(module, "read"):
        first = module.read(module.Config(), corpus, folder)
        return Rerank(config, first, corpus.fingerprint)
    return build(config, corpus)


def _first(config: Config) -> ModuleType | None:
    """The first stage's engine; None where it is an index folder."""
    return None if is_index(config.first) else plugins.load(PACKAGE, config.first)


class Rerank:
    """A Retriever; threads may share it as far as its first stage, and take turns to score.

    Attributes:
        fingerprint: Of the corpus that is searched.
    """

    def __init__(self, config: Config, first: Retriever, fingerprint: str) -> None:
        self._config = config
        self._first = first
        self.fingerprint = fingerprint
        self._scorer = load_scorer(config.model, config.device)

    def __reduce__(self) -> tuple[type["Rerank"], tuple[Config, Retriever, str]]:
        return Rerank, (self._config, self._first, self.fingerprint)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`."""
        check_k(k)
        found = self._first.search(queries, max(k, self._config.depth))
        try:
            return [
                self._ordered(query, hits, k) for query, hits in zip(queries, found, strict=True)
            ]
        except RuntimeError as error:  # an accelerator's memory is full
            raise RetrievalError(f"re-ranking failed: {first_line(error)}") from error

    def _ordered(self, query: str, hits: list[Hit], k: int) -> list[Hit]:
        if not hits:
            return []
        passages = [hit.passage for hit in hits]
        scores = self._scorer.score(query, passages, self._config.batch_size).round(_DECIMALS)
        order = sorted(range(len(hits)), key=lambda i: (-scores[i], passages[i].id))[:k]
        return [Hit(passages[i], float(scores[i]), rank) for rank, i in enumerate(order, 1)]
