"""Settings out of range, each refused in one line that names its dotted key and a value to give."""

from typing import Any

import pytest
from jsonargparse import ArgumentParser

from agents import command_line, config
from agents.config import TRAIN_LAYOUT, RunConfig
from retrieval.errors import InputError

REFUSED = [
    ("run.steps", "-1", "-1; give at least 0"),
    ("run.save_every", "0", "0; give at least 1"),
    ("model.lora_rank", "0", "0; give at least 1"),
    ("model.lora_alpha", "0", "0; give at least 1"),
    ("model.lora_last_layers", "-1", "-1; give at least 0"),
    ("env.top_k", "0", "0; give at least 1"),
    ("env.max_turns", "0", "0; give at least 1"),
    ("env.max_observation_tokens", "31", "31; give at least 32"),
    ("env.max_context_tokens", "0", "0; give at least 1"),
    ("engine.max_tokens", "0", "0; give at least 1"),
    ("engine.max_episodes", "0", "0; give at least 1"),
    ("rollout.questions_per_step", "0", "0; give at least 1"),
    ("rollout.group_size", "0", "0; give at least 1"),
    ("rollout.group_size", "-8", "-8; give at least 1"),
    ("rollout.temperature", "0", "0.0; give more than 0"),
    ("rollout.temperature", "-1", "-1.0; give more than 0"),
    ("optimizer.lr", "0", "0.0; give more than 0"),
    ("optimizer.lr", "-1e-5", "-1e-05; give more than 0"),
    ("optimizer.lr", ".nan", "nan; give more than 0"),
    ("optimizer.lr", ".inf", "inf; give more than 0"),
    ("optimizer.weight_decay", "-0.1", "-0.1; give at least 0"),
    ("optimizer.max_grad_norm", "-1", "-1.0; give at least 0"),
    ("optimizer.epochs", "0", "0; give at least 1"),
    ("optimizer.minibatches", "0", "0; give at least 1"),
    ("optimizer.microbatch_tokens", "0", "0; give at least 1"),
    ("warm_start.steps", "-1", "-1; give at least 0"),
    ("warm_start.episodes_per_step", "0", "0; give at least 1"),
    ("warm_start.lr", "0", "0.0; give more than 0"),
    ("warm_start.stop_early_share", "1.5", "1.5; give a share from 0 to 1"),
    ("warm_start.stop_early_share", "-0.1", "-0.1; give a share from 0 to 1"),
    ("evaluation.questions", "-1", "-1; give at least 0"),
    ("algorithm.clip_low", "0", "0.0; give more than 0"),
    ("algorithm.clip_high", "-0.2", "-0.2; give more than 0"),
    ("algorithm.dual_clip", "0.5", "0.5; give at least 1"),
    ("algorithm.std_eps", "-1", "-1.0; give at least 0"),
    ("retriever.k1", "-1", "-1.0: it must be 0 or more (0.9 is usual)"),
]


def parse(*argv: str) -> dict[str, Any]:
    return command_line.parse(ArgumentParser(prog="t"), TRAIN_LAYOUT, argv, {})[0]


@pytest.mark.parametrize(("key", "value", "message"), REFUSED)
def test_a_setting_out_of_range_is_refused(key: str, value: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(f"--{key}={value}")
    assert str(caught.value) == f"{key} is {message}"


ON_THE_BOUND = {
    "run": {"steps": "0", "save_every": "1", "seed": "-3"},
    "model": {"lora_rank": "1", "lora_alpha": "1", "lora_last_layers": "0"},
    "env": {"top_k": "1", "max_turns": "1", "max_observation_tokens": "32"},
    "engine": {"max_tokens": "1", "max_episodes": "1"},
    "rollout": {"questions_per_step": "1", "group_size": "1", "temperature": "0.01"},
    "optimizer": {"weight_decay": "0", "max_grad_norm": "0", "epochs": "1", "minibatches": "1"},
    "warm_start": {"steps": "0", "stop_early_share": "0"},
    "evaluation": {"questions": "0"},
    "algorithm": {"std_eps": "0", "clip_low": "0.001", "dual_clip": "1"},
}


def test_settings_on_their_bounds_are_taken() -> None:
    argv = [f"--{s}.{key}={v}" for s, keys in ON_THE_BOUND.items() for key, v in keys.items()]
    values = parse(*argv, "--env.max_context_tokens=null", "--warm_start.stop_early_share=1")
    assert values["run"] == config.RunOptions(steps=0, save_every=1, seed=-3)
    assert values["env"].max_context_tokens is None
    assert values["warm_start"].stop_early_share == 1.0
    assert values["algorithm"].config.clip_low == 0.001


def test_the_layout_is_the_run_configuration() -> None:
    assert list(TRAIN_LAYOUT) == list(RunConfig.__dataclass_fields__)
    assert RunConfig(**parse()).evaluation == config.EvaluationOptions(200, "test")


def test_python_callers_meet_the_same_bounds() -> None:
    with pytest.raises(InputError, match=r"^group_size is 0; give at least 1$"):
        config.RolloutOptions(group_size=0)


def test_a_group_that_is_more_than_may_be_played_at_once_is_refused() -> None:
    sizes = ["--rollout.group_size=8", "--engine.max_episodes=7"]
    with pytest.raises(InputError) as caught:
        RunConfig(**parse(*sizes))
    assert str(caught.value) == (
        "engine.max_episodes is 7; give at least rollout.group_size, 8: a group is played together"
    )
    assert RunConfig(**parse(sizes[0], "--engine.max_episodes=8")).rollout.group_size == 8
