"""Text to vectors: sentence-transformers models, and what each wants its input to look like.

Without the right prefix and pooling a model still answers, only worse, so the known families are
named here (a hub name or a folder of the same name):

* E5 (Wang et al., arXiv:2212.03533): "query: " and "passage: ", mean pooling, normalised. A passage
  is its quoted title, a newline and its text, as in the E5 index of Search-R1.
* BGE English (Xiao et al., arXiv:2309.07597): an instruction before the query, none before the
  passage, first token ([CLS]), normalised.
* MedCPT (Jin et al., arXiv:2307.00589): two encoders, [CLS], dot product without normalisation; the
  article encoder reads [title, text] as a pair, the query encoder 64 tokens.

Any other model uses the prompts, the pooling and the similarity that its own folder names. Vectors
are float32, and compared by inner product: of normalised vectors that is the cosine.
"""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .errors import InputError
from .hub import load_model
from .types import Passage

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

POOLINGS = ("mean", "cls", "max", "lasttoken")
LAYOUTS = ("line", "quoted", "pair")
_WORD = re.compile(r"\w")

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a model wants; None stands for what the model's own folder says.

    Attributes:
        passage_model: Hub name or folder of the encoder of passages.
        query_model: The same of queries; often the same model.
        query_prefix: Put before a query.
        passage_prefix: Put before a passage.
        pooling: One of `POOLINGS`.
        normalize: Whether vectors are scaled to length 1.
        query_tokens: Longer queries are cut.
        layout: How title and text become a passage: "line", on two lines; "quoted", the same with
            the title in quotes; "pair", as the two segments of one input.
    """

    passage_model: str
    query_model: str
    query_prefix: str | None = None
    passage_prefix: str | None = None
    pooling: str | None = None
    normalize: bool | None = None
    query_tokens: int | None = None
    layout: str = "line"


def recipe_for(
    name: str,
    query_prefix: str | None = None,
    passage_prefix: str | None = None,
    pooling: str | None = None,
) -> Recipe:
    """The recipe of a model by its name, with what the user wants otherwise.

    Raises:
        InputError: An unknown pooling, or no name.
    """
    if not name:
        raise InputError("encoder is empty: give a hub name, a model folder, or 'embedded'")
    if pooling is not None and pooling not in POOLINGS:
        raise InputError(f"pooling is {pooling!r}; choose one of {', '.join(POOLINGS)}")
    wanted = {"query_prefix": query_prefix, "passage_prefix": passage_prefix, "pooling": pooling}
    given: dict[str, Any] = {key: value for key, value in wanted.items() if value is not None}
    return replace(_known(name), **given)


def _known(name: str) -> Recipe:
    plain = Recipe(name, name)
    family = name.rstrip("/").rpartition("/")[2].lower()
    # Not e5-mistral or the -instruct models: those want a task description and other pooling.
    if re.fullmatch(r"(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?", family):
        return replace(
            plain,
            query_prefix="query: ",
            passage_prefix="passage: ",
            pooling="mean",
            normalize=True,
            layout="quoted",
        )
    if re.fullmatch(r"bge-(small|base|large)-en(-v1\.5)?", family):
        return replace(
            plain,
            query_prefix="Represent this sentence for searching relevant passages: ",
            passage_prefix="",
            pooling="cls",
            normalize=True,
        )
    if tower := re.fullmatch(r"(medcpt-)(article|query)(-encoder)", family):
        stem = name.rstrip("/")[: -len(tower[2] + tower[3])]
        return Recipe(
            passage_model=f"{stem}Article-Encoder",
            query_model=f"{stem}Query-Encoder",
            query_prefix="",
            passage_prefix="",
            pooling="cls",
            normalize=False,
            query_tokens=64,
            layout="pair",
        )
    return plain


def has_word(query: str) -> bool:
    """Whether a query has a letter, digit or underscore; an encoder would answer to "?!" too."""
    return _WORD.search(query) is not None


def valid_text(text: str) -> str:
    """The text with lone surrogates replaced, which no tokenizer takes."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def laid_out(passage: Passage, layout: str) -> str:
    """Title and text as one string; the text alone where there is no title."""
    if not passage.title:
        return passage.text
    return f'"{passage.title}"\n{passage.text}' if layout == "quoted" else _lines(passage)


def _lines(passage: Passage) -> str:
    return f"{passage.title}\n{passage.text}"


@lru_cache(maxsize=4)
def load_encoder(recipe: Recipe, device: str = "auto") -> "Encoder":
    """An encoder; engines of one process share it.

    Args:
        recipe: See `recipe_for`.
        device: "auto", or a torch device such as "cpu" or "cuda:1".

    Raises:
        InputError: A model cannot be loaded, or compares its vectors by a distance.
    """
    return Encoder(recipe, device)


class Encoder:
    """Queries and passages to vectors; threads may share it, and then take turns.

    Attributes:
        recipe: What it was made of.
        dimension: Of the vectors.
    """

    def __init__(self, recipe: Recipe, device: str) -> None:
        self.recipe = recipe
        self._passages = _Tower(recipe.passage_model, recipe, device)
        self._queries = self._passages
        if recipe.query_model != recipe.passage_model:
            self._queries = _Tower(recipe.query_model, recipe, device)
        self.dimension = self._passages.dimension
        if self._queries.dimension != self.dimension:
            raise InputError(
                f"{recipe.query_model} makes vectors of {self._queries.dimension} numbers and "
                f"{recipe.passage_model} of {self.dimension}: they do not belong together"
            )
        if recipe.query_tokens is not None:
            self._queries.limit(recipe.query_tokens)

    def encode_queries(self, queries: Sequence[str], batch_size: int) -> Vectors:
        """Shape (queries, dimension).

        A query's vector does not depend on the others with batch_size=1. In larger batches it is
        the same up to about 1e-7, since matrices of another size are summed in another order.
        """
        prefix = self._queries.prefix(self.recipe.query_prefix, "query")
        return self._queries.encode([prefix + valid_text(query) for query in queries], batch_size)

    def encode_passages(self, passages: Sequence[Passage], batch_size: int) -> Vectors:
        """Shape (passages, dimension); equal passages have equal vectors."""
        prefix = self._passages.prefix(self.recipe.passage_prefix, "document")
        texts: list[str | tuple[str, str]]
        if self.recipe.layout == "pair":
            texts = [(prefix + passage.title, passage.text) for passage in passages]
        else:
            texts = [prefix + laid_out(passage, self.recipe.layout) for passage in passages]
        return self._passages.encode(texts, batch_size)


class _Tower:
    """One sentence-transformers model."""

    def __init__(self, name: str, recipe: Recipe, device: str) -> None:
        self._model = load_model(name, lambda source, local: _load(source, local, device))
        if recipe.pooling is not None:
            _pool(self._model, recipe.pooling)
        normalize, similarity = recipe.normalize, self._model.similarity_fn_name
        if normalize is None:
            if similarity not in ("cosine", "dot"):
                raise InputError(
                    f"{name} compares its vectors by {similarity} distance; give a model made for "
                    "cosine or dot product"
                )
            normalize = similarity == "cosine"
        self._normalize = normalize
        self._lock = threading.Lock()
        self.dimension = int(self._model.get_embedding_dimension() or 0)

    def limit(self, tokens: int) -> None:
        """Cut inputs after so many tokens, if not before."""
        self._model.max_seq_length = min(tokens, self._model.max_seq_length or tokens)

    def prefix(self, wanted: str | None, role: str) -> str:
        """The prefix, or what the model's own folder names for "query" or "document"."""
        return wanted if wanted is not None else (self._model.prompts.get(role) or "")

    def encode(self, texts: Sequence[str | tuple[str, str]], batch_size: int) -> Vectors:
        """Distinct texts once, sorted by length into batches."""
        distinct = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        if not distinct:
            return np.empty((0, self.dimension), dtype=np.float32)
        with self._lock:  # a fast tokenizer cannot be used by two threads at once
            vectors: Any = self._model.encode(
                list(distinct),
                prompt="",
                batch_size=batch_size,
                show_progress_bar=False,
                normalize_embeddings=self._normalize,
            )
        places = [distinct[text] for text in texts]
        return np.ascontiguousarray(vectors[places], dtype=np.float32)


def _load(source: str, local: bool, device: str) -> "SentenceTransformer":
    from sentence_transformers import SentenceTransformer

    with quiet(local):
        return SentenceTransformer(
            source,
            device=None if device == "auto" else device,
            local_files_only=local,
            model_kwargs={"use_safetensors": True},
        ).eval()


class quiet:
    """Hides the bar of half a second that loading local weights draws; downloads keep theirs."""

    def __init__(self, local: bool) -> None:
        from transformers.utils import logging

        self._bars = logging
        self._hide = local and logging.is_progress_bar_enabled()

    def __enter__(self) -> None:
        if self._hide:
            self._bars.disable_progress_bar()

    def __exit__(self, *_: object) -> None:
        if self._hide:
            self._bars.enable_progress_bar()


def _pool(model: "SentenceTransformer", mode: str) -> None:
    """Change how token vectors become one; a hub model without a pooling module gets mean."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    found = [module for module in model if isinstance(module, Pooling)]
    if not found:
        raise InputError(f"pooling: this model has no pooling that could be {mode!r}; leave it out")
    for module in found:
        module.pooling_mode = mode
        module.pooling_output_dimension = module.embedding_dimension
