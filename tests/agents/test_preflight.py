"""T24: what cannot fit is refused, and what to change is named."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents import preflight, train_command
from agents.command_line import to_yaml
from agents.config import TRAIN_LAYOUT
from agents.preflight import Device, needs, remedies, report
from retrieval.errors import InputError
from tests.agents.test_memory import read

TINY = str(Path(__file__).parents[2] / "configs/tiny.yaml")
QWEN = ("--model.name", "Qwen/Qwen2.5-3B-Instruct", "--model.dtype", "bfloat16")


def device(memory: float, on_gpu: bool = True) -> Device:
    return Device("a test", torch.bfloat16, on_gpu, memory)


def test_the_dry_run_prints_the_estimate_and_writes_nothing(tmp_path, capsys) -> None:
    run = tmp_path / "run"
    argv = ["--config", TINY, *QWEN, "--run.dir", str(run), "--dry-run", "--memory_gb", "80"]
    assert train_command.main(argv) == 0
    out = capsys.readouterr().out
    assert "3,085,938,688 parameters, bfloat16" in out
    assert f"{2 * 3085938688 / 1e9:.2f}  3,085,938,688 x 2 bytes" in out
    assert "it fits" in out and "a card of 80 GB" in out
    assert not run.exists()


def test_too_small_a_card_gives_2_and_remedies_that_hold(tmp_path, capsys) -> None:
    argv = ["--config", TINY, *QWEN, "--optimizer.microbatch_tokens", "16384"]
    argv += ["--dry-run", "--memory_gb", "12"]
    assert train_command.main(argv) == 2
    out = capsys.readouterr().out
    assert "IT DOES NOT FIT: with --" in out
    advice = out.split("FIT: with ")[1].split(" it would")[0].split()
    assert train_command.main([*argv, *advice]) == 0


def test_the_cheapest_change_that_suffices_is_named() -> None:
    """Half the micro-batch costs less than to recompute, and that less than 4 bits."""
    config = read(*QWEN, "--optimizer.microbatch_tokens", "16384")
    plain = needs(config, device(1e15)).peak
    half = replace(config, optimizer=replace(config.optimizer, microbatch_tokens=8192))
    assert remedies(config, device(plain)) == []
    assert remedies(config, device(plain - 1)) == ["--optimizer.microbatch_tokens 8192"]
    assert needs(half, device(1e15)).peak < plain
    least = replace(config, optimizer=replace(config.optimizer, microbatch_tokens=512))
    found = remedies(config, device(needs(least, device(1e15)).peak - 1))
    assert found is not None and found[0] == "--model.gradient_checkpointing true"


def test_states_are_let_go_of_where_nothing_cheaper_suffices() -> None:
    """Many long episodes on few layers: the states are more than a micro-batch."""
    flags = ("--model.lora_last_layers", "1", "--rollout.questions_per_step", "4096")
    config = read(*QWEN, *flags)
    found = remedies(config, device(needs(config, device(1e15)).peak / 2))
    assert found is not None and "--engine.keep_states false" in found


def test_sampling_is_made_smaller_where_sampling_is_what_is_large() -> None:
    flags = ("--engine.max_episodes", "1024", "--rollout.questions_per_step", "256")
    config = read(*QWEN, *flags, "--model.gradient_checkpointing", "true")
    peak = needs(config, device(1e15)).peak
    assert remedies(config, device(peak - 1)) == ["--engine.max_episodes 512"]


def test_4_bits_are_for_a_gpu_and_for_models_read_from_files() -> None:
    config = read(*QWEN)
    tight = 2 * needs(config, device(1e15)).base_parameters  # the weights alone, in two bytes
    assert "--model.quantization nf4" in (remedies(config, device(tight)) or [])
    assert remedies(config, device(tight, on_gpu=False)) is None
    tiny = read()
    assert remedies(tiny, device(needs(tiny, device(1e15)).least - 1)) is None
    text, fits = report(config, device(1e9))
    assert not fits and "take a smaller model" in text


def test_no_flag_is_named_that_changes_nothing() -> None:
    """Every set of flags, read again, is smaller than each of them left out."""
    config = read(*QWEN, "--optimizer.microbatch_tokens", "16384", "--engine.max_episodes", "512")
    for gb in (8, 10, 14, 20, 30):
        flags = remedies(config, device(gb * 1e9)) or []
        for left_out in flags:
            rest = [word for flag in flags if flag != left_out for word in flag.split()]
            args = ("--optimizer.microbatch_tokens", "16384", "--engine.max_episodes", "512")
            assert needs(read(*QWEN, *args, *rest), device(0)).peak > gb * 1e9


class TestBeforeARun:
    def test_what_surely_cannot_fit_is_refused_before_anything_is_built(
        self, tmp_path, monkeypatch, capsys
    ) -> None:
        def never(*_: object) -> None:
            raise AssertionError

        monkeypatch.setattr(preflight, "device_memory", lambda device: 10_000)
        monkeypatch.setattr(train_command, "build_parts", never)
        run = tmp_path / "run"
        assert train_command.main(["--config", TINY, "--run.dir", str(run)]) == 2
        error = capsys.readouterr().err
        assert "this run needs" in error and "Traceback" not in error
        assert not run.exists()

    def test_what_may_not_fit_is_a_warning(self, monkeypatch) -> None:
        config = read()
        found = needs(config, preflight.this_device(config))
        monkeypatch.setattr(preflight, "device_memory", lambda device: found.peak - 1)
        warning = preflight.check(config)
        assert warning is not None and "may need" in warning
        monkeypatch.setattr(preflight, "device_memory", lambda device: found.peak)
        assert preflight.check(config) is None
        monkeypatch.setattr(preflight, "device_memory", lambda device: found.least - 1)
        with pytest.raises(InputError, match="this run needs"):
            preflight.check(config)


def test_another_card_is_planned_for_only_without_running(capsys) -> None:
    assert train_command.main(["--config", TINY, "--memory_gb", "24"]) == 2
    assert "--dry-run" in capsys.readouterr().err
    assert train_command.main(["--config", TINY, "--dry-run", "--memory_gb", "0"]) == 2


def test_a_run_can_be_planned_from_its_own_configuration(tmp_path, capsys) -> None:
    config = read()
    values = {name: getattr(config, name) for name in TRAIN_LAYOUT}
    (tmp_path / "config.yaml").write_text(to_yaml(values))
    assert train_command.main(["--resume", str(tmp_path), "--dry-run"]) == 0
    assert "model      tiny" in capsys.readouterr().out


def test_a_model_known_by_its_config_alone_can_be_planned(tmp_path, capsys) -> None:
    sizes = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "vocab_size": 100}
    layers = {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
    (tmp_path / "config.json").write_text(json.dumps(sizes | layers))
    argv = ["--config", TINY, "--model.name", str(tmp_path), "--dry-run", "--memory_gb", "4"]
    assert train_command.main(argv) == 0
    assert "parameters" in capsys.readouterr().out
