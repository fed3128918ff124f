"""What `gymnasium.make("envs:SearchQA-v0", ...)` and `"envs:MedicalQA-v0"` call.

Both ids are the same environment; their defaults differ. SearchQA plays the generated world `atlas`
for exact match, MedicalQA the generated world `formulary` for the right option.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from retrieval import plugins
from retrieval.cache import CachedRetriever
from retrieval.corpus import Corpus, read_corpus
from retrieval.errors import InputError
from retrieval.types import Retriever

from .limits import EnvLimits
from .rules import SearchRules
from .search_env import SearchEnv
from .types import Dataset, Question, Reward


def make_env(
    dataset: str | Dataset | Sequence[Question] = "atlas",
    retriever: str | Retriever = "bm25s",
    corpus: str | Path | None = None,
    reward: Reward | Mapping[str, float] | None = None,
    render_mode: str | None = None,
    **bounds: Any,
) -> SearchEnv:
    """Build a SearchEnv from names or from parts.

    Args:
        dataset: A name of `envs.datasets`, with its default settings; or a Dataset; or questions.
        retriever: A name of `retrieval.retrievers`, with its default settings, which then indexes
            the corpus; or a ready search engine. Environments of one process share the index.
        corpus: A corpus file; None for the dataset's own passages.
        reward: A reward term, or weights of terms of `envs.rewards`; None for exact match.
        render_mode: "ansi" or None.
        **bounds: Fields of `EnvLimits` and `SearchRules`: `max_turns=4`, `strict_queries=True`.

    Raises:
        InputError: An unknown name or bound, or a named retriever without a corpus.
    """
    limits, rules = ([field.name for field in fields(kind)] for kind in (EnvLimits, SearchRules))
    if unknown := set(bounds) - {*limits, *rules}:
        raise InputError(
            f"environment: unknown {sorted(unknown)}; limits are {', '.join(limits)}; rules are "
            f"{', '.join(rules)}"
        )
    if isinstance(dataset, str):
        dataset = _dataset(dataset)
    elif not isinstance(dataset, Dataset):
        dataset = Dataset(dataset)
    if isinstance(retriever, str):
        retriever = _engine(retriever, _corpus(dataset, corpus))
    elif corpus is not None:
        raise InputError(f"corpus: {corpus} is given with a ready retriever; leave one of them out")
    return SearchEnv(
        questions=dataset.questions,
        retriever=retriever,
        reward={"exact_match": 1.0} if reward is None else reward,
        limits=EnvLimits(**{name: bounds[name] for name in limits if name in bounds}),
        rules=SearchRules(**{name: bounds[name] for name in rules if name in bounds}),
        render_mode=render_mode,
    )


# A vector environment makes many equal environments: they share one world and one index.
@lru_cache(maxsize=2)
def _dataset(name: str) -> Dataset:
    module = plugins.load("envs.datasets", name)
    dataset: Dataset = module.build(module.Config())
    return dataset


@lru_cache(maxsize=2)
def _engine(name: str, corpus: Corpus) -> CachedRetriever:
    module = plugins.load("retrieval.retrievers", name)
    return CachedRetriever(module.build(module.Config(), corpus))


def _corpus(dataset: Dataset, path: str | Path | None) -> Corpus:
    if path is not None:
        return read_corpus(path)
    if dataset.passages is None:
        raise InputError("corpus: this dataset has no passages of its own; give corpus=FILE")
    return Corpus.of(dataset.passages)
