"""Pairs of query and passage to scores: what re-orders the candidates of a first stage.

A cross-encoder reads both texts at once (Nogueira & Cho, arXiv:1901.04085), such as
`cross-encoder/ms-marco-MiniLM-L6-v2` or `ncbi/MedCPT-Cross-Encoder`. Scores are its raw logits: the
sigmoid that sentence-transformers puts on top keeps the order but makes ties of all good ones. A
passage is its title, a newline and its text; inputs are cut at the model's own limit, 512 tokens
for both of these.

No cross-encoder comes in a wheel. The name "embedded" stands for the embedded bi-encoder: cosine of
the two vectors. That is no cross-encoder, and over a dense first stage with the same encoder it
changes nothing; it serves lexical first stages where no hub is reachable.
"""

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from .encoders import Encoder, laid_out, load_encoder, quiet, recipe_for, valid_text
from .errors import InputError
from .hub import EMBEDDED, load_model
from .types import Passage

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

Scores = npt.NDArray[np.float64]


class Scorer(Protocol):
    """Says how well passages answer a query."""

    def score(self, query: str, passages: Sequence[Passage], batch_size: int) -> Scores:
        """Higher is better; shape (passages,). Equal passages have equal scores."""
        ...


@lru_cache(maxsize=2)
def load_scorer(name: str, device: str = "auto") -> Scorer:
    """A scorer; engines of one process share it.

    Args:
        name: A cross-encoder's hub name or folder, or "embedded".
        device: "auto", or a torch device such as "cpu" or "cuda:1".

    Raises:
        InputError: It cannot be loaded, or gives classes and not one score.
    """
    if name == EMBEDDED:
        return BiEncoderScorer(load_encoder(recipe_for(name), device))
    return CrossEncoderScorer(name, device)


class BiEncoderScorer:
    """Inner product of the vectors of query and passage; threads may share it."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def score(self, query: str, passages: Sequence[Passage], batch_size: int) -> Scores:
        """See `Scorer`."""
        vectors = self._encoder.encode_passages(passages, batch_size).astype(np.float64)
        scores: Scores = vectors @ self._encoder.encode_queries([query], 1)[0].astype(np.float64)
        return scores


class CrossEncoderScorer:
    """A sentence-transformers cross-encoder; threads may share it, and then take turns."""

    def __init__(self, name: str, device: str) -> None:
        self._model = load_model(name, lambda source, local: _load(source, local, device))
        labels = self._model.num_labels
        if labels != 1:
            raise InputError(
                f"{name} gives {labels} classes and not one score; give a cross-encoder for ranking"
            )
        self._lock = threading.Lock()

    def score(self, query: str, passages: Sequence[Passage], batch_size: int) -> Scores:
        """See `Scorer`."""
        from torch.nn import Identity

        texts = [laid_out(passage, "line") for passage in passages]
        distinct = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        query = valid_text(query)
        with self._lock:  # a fast tokenizer cannot be used by two threads at once
            logits: Any = self._model.predict(
                [(query, text) for text in distinct],
                batch_size=batch_size,
                show_progress_bar=False,
                activation_fn=Identity(),
            )
        scores: Scores = logits.astype(np.float64)[[distinct[text] for text in texts]]
        return scores


def _load(source: str, local: bool, device: str) -> "CrossEncoder":
    from sentence_transformers import CrossEncoder

    with quiet(local):
        return CrossEncoder(
            source,
            device=None if device == "auto" else device,
            local_files_only=local,
            model_kwargs={"use_safetensors": True},
        ).eval()
