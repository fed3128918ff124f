"""Warm start, the rollout of a step, the comparison before and after."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jsonargparse import ArgumentParser
from peft import get_peft_model_state_dict

from agents import command_line, train_command
from agents.assembly import Parts, build_parts
from agents.batching import to_batch
from agents.config import TRAIN_LAYOUT, RunConfig
from agents.predictions import Prediction
from agents.rollout import demonstrate
from agents.seeding import question_index
from agents.starting import begin
from agents.statistics import bootstrap
from agents.training import compare, play_step, train, warm_start
from agents.trunk import Trunk
from agents.types import Trajectory
from envs.types import Question
from retrieval.errors import InputError, RetrievalError
from tests.agents import builds, equal_runs, runs


def build(folder: Path, *argv: str, **changes: Any) -> Parts:
    file = runs.config_file(folder, **changes)
    flags = ["--config", str(file), "--run.dir", str(folder / "run"), *argv]
    values, _ = command_line.parse(ArgumentParser(), TRAIN_LAYOUT, flags, {})
    return build_parts(RunConfig(**values))


def adapter(parts: Parts) -> dict[str, torch.Tensor]:
    return {k: v.clone() for k, v in get_peft_model_state_dict(parts.policy.model).items()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def expert_loss(parts: Parts) -> float:
    """The mean of -log pi over the expert's tokens on the first questions, in nats."""
    env = parts.rollout.make_env()
    shown = [
        demonstrate(q, parts.demonstrate(q, False), env, parts.rollout.framing)
        for q in parts.questions[:16]
    ]
    batch = to_batch(shown, parts.policy.pad_id)
    with torch.no_grad():
        logprobs, _ = parts.policy.logprobs(batch.input_ids, batch.action_mask, 1.0)
    return float(-logprobs.sum() / batch.action_mask.sum())


CLONING = {"steps": 15, "episodes_per_step": 8, "lr": 0.01, "stop_early_share": 0.0}


def test_a_warm_start_learns_from_the_expert(tmp_path: Path) -> None:
    parts = build(tmp_path, warm_start=CLONING)
    before = expert_loss(parts)
    # 1,024 tokens: an untrained model is no better than a guess (ln 1024 = 6.93), and worse where
    # it is sure of itself.
    assert before > 6.0
    warm_start(parts)
    assert expert_loss(parts) < before - 2.0


def test_a_warm_start_depends_on_the_seed_alone(tmp_path: Path) -> None:
    made = []
    for number, seed in enumerate((5, 5, 6)):
        torch.manual_seed(number)
        np.random.seed(number)
        parts = build(tmp_path, f"--run.seed={seed}")
        # Fresh adapters differ with the seed; what is tested is the draw of demonstrations.
        for name, parameter in parts.policy.model.named_parameters():
            if "lora_" in name:
                torch.nn.init.constant_(parameter, 0.01 if "lora_A" in name else 0.0)
        warm_start(parts)
        made.append(adapter(parts))
    assert equal(made[0], made[1])
    assert not equal(made[0], made[2])


def test_no_warm_start_changes_nothing(tmp_path: Path) -> None:
    parts = build(tmp_path, "--warm_start.steps=0")
    before = adapter(parts)
    warm_start(parts)
    assert equal(adapter(parts), before)


@pytest.mark.parametrize(("share", "early"), [(0.0, {False}), (1.0, {True}), (0.5, {False, True})])
def test_a_share_of_demonstrations_stops_early(
    share: float, early: set[bool], tmp_path: Path
) -> None:
    parts = build(tmp_path, f"--warm_start.stop_early_share={share}", dataset={"hops": [2]})
    asked: list[tuple[Question, bool]] = []

    def demonstrate_and_tell(question: Question, stop: bool) -> tuple[str, ...]:
        asked.append((question, stop))
        return parts.demonstrate(question, stop)

    warm_start(replace(parts, demonstrate=demonstrate_and_tell))
    assert len(asked) == 2 * 4  # steps x episodes_per_step
    assert {stop for _, stop in asked} == early
    assert {question for question, _ in asked} <= set(parts.questions)
    assert len({question.id for question, _ in asked}) > 2


def summary(played: list[Trajectory]) -> list[tuple[Any, ...]]:
    return [
        (t.group_id, t.episode.question.id, [(turn.action_ids, turn.logprobs) for turn in t.turns])
        for t in played
    ]


def test_a_steps_rollout_depends_on_the_step_and_the_policy_alone(tmp_path: Path) -> None:
    parts = build(tmp_path)
    third = summary(play_step(parts, 3)[0])
    torch.manual_seed(99)
    play_step(parts, 1)
    assert summary(play_step(parts, 3)[0]) == third
    assert summary(play_step(build(tmp_path), 3)[0]) == third
    assert summary(play_step(build(tmp_path, "--run.seed=8"), 3)[0]) != third
    builds.randomise(parts.policy, 0.5)
    assert summary(play_step(parts, 3)[0]) != third


def test_a_step_plays_the_next_questions_of_the_shuffled_pass(tmp_path: Path) -> None:
    parts = build(tmp_path, dataset={"limit": 6})
    order = [question_index(draw, 6, 7) for draw in range(12)]
    assert sorted(order[:6]) == sorted(order[6:]) == [0, 1, 2, 3, 4, 5]
    played = [trajectory for step in range(1, 7) for trajectory in play_step(parts, step)[0]]
    # 2 questions a step, 4 episodes each: 12 groups of 4, numbered through the whole run (T19).
    assert [t.group_id for t in played] == [group for group in range(12) for _ in range(4)]
    for trajectory in played:
        assert trajectory.episode.question == parts.questions[order[trajectory.group_id]]


def prediction(score: float, reason: str = "answered", **changes: Any) -> Prediction:
    plain = Prediction(
        id="q",
        dataset="d",
        question="Where?",
        answers=("Paris",),
        prediction="Paris",
        metrics={"em": score, "f1": 0.5},
        searches=0,
        turns=1,
        invalid=0,
        tokens=5,
        stop_reason=reason,
        steps=(),
    )
    return replace(plain, **changes)


def test_a_run_takes_the_states_of_frozen_blocks_from_sampling(monkeypatch, tmp_path: Path) -> None:
    """The same metrics as without, and nothing is computed twice in any step."""
    found: list[bool] = []
    states = Trunk.states

    def watched(trunk: Trunk, *args: Any) -> torch.Tensor | None:
        kept = states(trunk, *args)
        found.append(kept is not None)
        return kept

    monkeypatch.setattr(Trunk, "states", watched)
    metrics = []
    for keep in ("true", "false"):
        found.clear()
        folder = tmp_path / keep
        file = runs.config_file(
            folder,
            run={"steps": 2},
            model={"lora_last_layers": 1},
            engine={"keep_states": keep == "true"},
            warm_start={"steps": 0},
            evaluation={"questions": 0},
        )
        argv = ["--config", str(file), "--run.dir", str(folder / "run")]
        assert train_command.main(argv) == 0
        assert found and set(found) == {keep == "true"}
        rows = equal_runs.rows(folder / "run/metrics.jsonl")
        metrics.append([{k: v for k, v in row.items() if v is not None} for row in rows])
    for kept, computed in zip(*metrics, strict=True):
        assert kept == pytest.approx(computed, rel=1e-3, abs=1e-5)


def test_before_and_after_are_compared_question_by_question() -> None:
    before = [
        prediction(0.0, invalid=1),
        prediction(1.0, searches=1, turns=2),
        prediction(0.0, turns=3, invalid=2),
        prediction(0.0, metrics={"accuracy": 0.0}),
        prediction(1.0),  # its retrieval failed afterwards: neither side counts
        prediction(0.0, "retrieval_error", turns=9, invalid=9),
    ]
    after = [
        prediction(1.0, searches=2, turns=3),
        prediction(1.0, searches=2, turns=3, invalid=1),
        prediction(0.0, searches=1, turns=2),
        prediction(0.0, metrics={"accuracy": 1.0}, searches=1, turns=2),
        prediction(0.0, "retrieval_error", turns=9, invalid=9),
        prediction(1.0),
    ]
    assert compare(before, after) == {
        "n": 4,
        "em_before": 0.25,
        "em_after": 0.75,
        "difference": bootstrap([1.0, 0.0, 0.0, 1.0]),
        "searches_before": 0.25,
        "searches_after": 1.5,
        "invalid_rate_before": 3 / 7,  # of 1 + 2 + 3 + 1 turns
        "invalid_rate_after": 0.1,  # of 3 + 3 + 2 + 2
    }


def test_nothing_is_compared_where_retrieval_always_failed() -> None:
    failed = [prediction(0.0, "retrieval_error")]
    with pytest.raises(RetrievalError, match="evaluation: retrieval failed in every episode"):
        compare(failed, [prediction(1.0)])


def test_different_questions_are_not_compared() -> None:
    with pytest.raises(ValueError, match="argument 2 is"):
        compare([prediction(0.0)] * 2, [prediction(0.0)] * 3)


def test_a_run_without_evaluation_has_no_summary(tmp_path: Path) -> None:
    parts = build(tmp_path, "--evaluation.questions=0", "--run.steps=1", "--warm_start.steps=0")
    parts.folder.mkdir()
    assert train(parts, begin(parts), "command") is None
    written = runs.contents(parts.folder)
    assert "checkpoints/step-000001/adapter_model.safetensors" in written
    assert not [name for name in written if name.startswith(("evaluation", "summary"))]


@pytest.mark.parametrize(("name", "kind"), [("adamw", torch.optim.AdamW), ("sgd", torch.optim.SGD)])
def test_the_optimiser_is_the_configured_one(tmp_path: Path, name: str, kind: type) -> None:
    optimizer = begin(build(tmp_path, optimizer={"name": name, "lr": 0.5})).trainer.optimizer
    assert type(optimizer) is kind
    (group,) = optimizer.param_groups
    assert group["lr"] == 0.5 and group.get("momentum", 0) == 0


def test_an_unknown_optimiser_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"optimizer\.name is 'adam'; choose one of adamw, sgd"):
        build(tmp_path, optimizer={"name": "adam"})
