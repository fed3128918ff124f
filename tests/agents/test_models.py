"""Base models by name, and what is said when there is none."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from agents.models import fingerprint, load_base
from agents.tiny import build_tiny
from retrieval.errors import InputError

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model as save_pretrained writes it."""
    folder = tmp_path_factory.mktemp("models") / "saved"
    model, tokenizer = build_tiny()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


def load(name: str | Path, dtype: torch.dtype = torch.float32):
    return load_base(str(name), dtype, torch.device("cpu"))


def change_config(folder: Path, **changes) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_a_folder_gives_the_model_that_was_saved(saved) -> None:
    expected, tokenizer = build_tiny()
    model, loaded = load(saved)
    assert fingerprint(dict(model.named_parameters())) == fingerprint(
        dict(expected.named_parameters())
    )
    ids = torch.arange(2, 30)[None]
    with torch.no_grad():
        assert torch.equal(model(input_ids=ids).logits, expected.eval()(input_ids=ids).logits)
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert loaded.chat_template == tokenizer.chat_template


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["tiny", "saved"])
def test_it_is_frozen_in_eval_mode_and_of_the_dtype(saved, name, dtype) -> None:
    model, _ = load(saved if name == "saved" else name, dtype)
    assert not model.training
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert not any(p.requires_grad for p in model.parameters())


def delete(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).unlink()


def without_weights(folder: Path) -> None:
    delete(folder, "model.safetensors")


def pickle_only(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def without_config(folder: Path) -> None:
    delete(folder, "config.json")


def without_tokenizer(folder: Path) -> None:
    delete(folder, "tokenizer.json", "tokenizer_config.json")


def without_template(folder: Path) -> None:
    delete(folder, "chat_template.jinja")


def broken_config(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def broken_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")


def truncated(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])


def of_other_shapes(folder: Path) -> None:
    change_config(folder, intermediate_size=96)


def of_unknown_kind(folder: Path) -> None:
    change_config(folder, model_type="zzz")


def with_a_weight_missing(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without_weights, r"holds no \*.safetensors"),
        (pickle_only, r"holds no \*.safetensors"),
        (without_config, "holds no config.json"),
        (without_tokenizer, "cannot load"),
        (without_template, "has no chat template"),
        (broken_config, "cannot load .*config.json"),
        (broken_tokenizer, "cannot load"),
        (truncated, "cannot load"),
        (of_other_shapes, "cannot load"),
        (of_unknown_kind, "cannot load .*zzz"),
        # transformers would draw it at random and only warn.
        (with_a_weight_missing, "lack model.layers.1.mlp.up_proj.weight"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(folder, damage, message) -> None:
    damage(folder)
    with pytest.raises(InputError, match=f"^model.name: .*{message}") as caught:
        load(folder)
    assert "\n" not in str(caught.value) and folder.name in str(caught.value)


@pytest.mark.parametrize("name", ["/nowhere/model", "nowhere", "a/b/c", "./a/b"])
def test_a_missing_folder_is_not_looked_up_on_a_hub(name) -> None:
    with pytest.raises(InputError, match=f"^model.name: no folder {name!r}"):
        load(name)


def test_a_hub_name_that_cannot_be_had_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"^model\.name: cannot load 'nobody/nothing'"):
        load("nobody/nothing")


class TestFingerprint:
    def test_it_tells_names_shapes_and_values_apart(self) -> None:
        base = {"a": torch.zeros(2, 3), "b": torch.ones(4)}
        others = [
            {"a": torch.zeros(2, 3), "c": torch.ones(4)},
            {"a": torch.zeros(3, 2), "b": torch.ones(4)},
            {"a": torch.zeros(2, 3), "b": torch.tensor([1.0, 1.0, 1.0, 1.01])},
            {"a": torch.zeros(2, 3)},
        ]
        prints = {fingerprint(weights) for weights in [base, *others]}
        assert len(prints) == 5

    def test_it_is_the_same_in_half_precision(self) -> None:
        model, _ = load("tiny", torch.float32)
        other, _ = load("tiny", torch.bfloat16)
        assert fingerprint(dict(model.named_parameters())) == fingerprint(
            dict(other.named_parameters())
        )

    def test_order_does_not_matter(self) -> None:
        weights = {"a": torch.zeros(2), "b": torch.ones(4)}
        assert fingerprint(weights) == fingerprint(dict(reversed(weights.items())))


CODE = """
import hashlib, json, torch
from agents.tiny import build_tiny
torch.manual_seed(7)
before = torch.get_rng_state()
model, tokenizer = build_tiny()
assert torch.equal(torch.get_rng_state(), before), "building drew from the global generator"
digest = hashlib.sha256(json.dumps(tokenizer.get_vocab(), sort_keys=True).encode())
for p in model.parameters():
    digest.update(p.detach().numpy().tobytes())
result = digest.hexdigest()
"""


def test_the_tiny_model_is_the_same_in_every_process() -> None:
    here: dict[str, str] = {}
    with torch.random.fork_rng():
        exec(CODE, here)
    there = subprocess.run(
        [sys.executable, "-c", CODE + "print(result)"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == here["result"]
