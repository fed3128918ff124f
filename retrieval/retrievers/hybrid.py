"""Several engines asked at once, their answers fused into one.

    --retriever.name hybrid --retriever.of '["bm25s", "indexes/wiki-e5"]'

A part is an engine's name (its default settings over the corpus) or an index folder. Each is asked
for its `depth` best passages, all at the same time in threads; how the answers are fused is said in
`retrieval.fusion`. Ranks need no common scale, so "rrf" fits any engines; "weighted" also uses how
far apart the scores are, and wants weights that were tuned.

A query without hits in one part is answered by the others. A part that fails fails the search: an
answer of fewer engines than were asked for would be another engine's answer.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import isfinite

from ..compose import fingerprint_of, open_engine, spec_needs_corpus
from ..corpus import Corpus
from ..errors import InputError, RetrievalError
from ..fusion import by_reciprocal_rank, by_weighted_score
from ..ranking import check_k
from ..types import Hit, Retriever

NEEDS_CORPUS = False

Fusion = Callable[[Sequence[Sequence[Hit]], Sequence[float], int], list[Hit]]
FUSIONS: dict[str, Fusion] = {"rrf": by_reciprocal_rank, "weighted": by_weighted_score}


@dataclass(frozen=True, slots=True)
class Config:
    """Settings.

    Attributes:
        of: Two or more engines: names, or index folders of the same corpus.
        fusion: "rrf" (reciprocal ranks) or "weighted" (scores scaled to 0..1 within each answer).
        weights: One per engine, more than 0; empty for equal weights.
        depth: Candidates of each engine, at least 1; a search for more asks for as many.
    """

    of: tuple[str, ...] = ("bm25s", "rank_bm25")
    fusion: str = "rrf"
    weights: tuple[float, ...] = ()
    depth: int = 100

    def __post_init__(self) -> None:
        if len(self.of) < 2:
            raise InputError(f"of is {self.of}: name two or more engines")
        if self.fusion not in FUSIONS:
            raise InputError(f"fusion is {self.fusion!r}; choose one of {', '.join(FUSIONS)}")
        if self.weights and len(self.weights) != len(self.of):
            raise InputError(
                f"weights are {self.weights}: give one for each of the {len(self.of)} engines"
            )
        if not all(isfinite(weight) and weight > 0 for weight in self.weights):
            raise InputError(f"weights are {self.weights}: each must be more than 0")
        if self.depth < 1:
            raise InputError(f"depth is {self.depth}: it must be 1 or more (100 is usual)")


def needs_corpus(config: Config) -> bool:
    """Whether one of the parts must be given passages."""
    return any(spec_needs_corpus(spec) for spec in config.of)


def build(config: Config, corpus: Corpus | None) -> "Hybrid":
    """Build or open the parts.

    Raises:
        InputError: An unknown part, or parts of different corpora.
    """
    return Hybrid(config, corpus)


class Hybrid:
    """A Retriever; threads may share it as far as they may share its parts.

    Attributes:
        fingerprint: Of the corpus that all parts search.
    """

    def __init__(self, config: Config, corpus: Corpus | None) -> None:
        self._names = config.of
        self._parts = [open_engine(spec, corpus) for spec in config.of]
        found = [fingerprint_of(part, corpus) for part in self._parts]
        if len(set(found)) > 1:
            pairs = ", ".join(
                f"{spec} ({print_[:19]}...)" for spec, print_ in zip(config.of, found, strict=True)
            )
            raise InputError(f"of: the engines search different corpora: {pairs}")
        self.fingerprint = found[0]
        self._fuse = FUSIONS[config.fusion]
        self._weights = config.weights or (1.0,) * len(config.of)
        self._depth = config.depth
        self._pool = ThreadPoolExecutor(len(self._parts), thread_name_prefix="hybrid")

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`."""
        check_k(k)
        if not queries:
            return []
        depth = max(k, self._depth)
        asked = [
            self._pool.submit(_ask, name, part, queries, depth)
            for name, part in zip(self._names, self._parts, strict=True)
        ]
        answers = [answer.result() for answer in asked]
        return [self._fuse(each, self._weights, k) for each in zip(*answers, strict=True)]


def _ask(name: str, part: Retriever, queries: Sequence[str], k: int) -> list[list[Hit]]:
    """One part's answers; its failures name it."""
    try:
        answers = part.search(queries, k)
    except (RetrievalError, OSError) as error:
        raise RetrievalError(f"{name}: {error}") from error
    if len(answers) != len(queries):
        raise RetrievalError(f"{name}: {len(answers)} answers to {len(queries)} queries")
    return answers
