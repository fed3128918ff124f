"""4 bits: refused with a reason where they cannot be had; everything else needs a GPU."""

import pytest
import torch

from agents import quantization
from agents.models import load_base
from agents.quantization import BYTES_PER_WEIGHT, quantised
from retrieval.errors import InputError

CPU = torch.device("cpu")


def test_they_need_a_gpu() -> None:
    with pytest.raises(InputError, match=r"model\.quantization: nf4 needs a GPU.*is cpu"):
        quantised("embedded", torch.bfloat16, CPU)
    with pytest.raises(InputError, match="set it to none"):
        load_base("embedded", torch.bfloat16, CPU, "nf4")


def test_they_need_the_package(monkeypatch) -> None:
    monkeypatch.setattr(quantization.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install bitsandbytes"):
        quantised("embedded", torch.bfloat16, torch.device("cuda"))


def test_the_model_built_in_memory_has_no_file_to_quantise() -> None:
    with pytest.raises(InputError, match="tiny model"):
        load_base("tiny", torch.float32, CPU, "nf4")


def test_a_weight_takes_half_a_byte_and_its_share_of_a_scale() -> None:
    """NF4 (arXiv:2305.14314, section 3): a float32 scale for every 64 weights."""
    assert BYTES_PER_WEIGHT == 4 / 8 + 4 / 64
