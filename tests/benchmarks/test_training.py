"""The training benchmark on the tiny model: its sides do the same work, its arithmetic is right."""

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from agents.models import load_base
from agents.policy import SearchPolicy
from agents.types import Batch
from benchmarks.speed import command, operators, sides, task, trl_side, update
from benchmarks.speed.ours import Stepper, endless_policy, model_options
from benchmarks.speed.task import Shape, Task, build_task

TWO_TURNS = Shape(questions=2, group_size=2, turns=2, tokens=6)
MICROBATCH = 1024
OPTIONS = model_options("tiny", layers=1)


@pytest.fixture(scope="module")
def policy() -> SearchPolicy:
    return endless_policy(OPTIONS)


@pytest.fixture(scope="module")
def work(policy: SearchPolicy) -> Task:
    return build_task(TWO_TURNS, policy.tokenizer)


def expected(work: Task, index: int) -> list[int]:
    """The observations' tokens in an episode after its prompt; -1 where tokens are sampled."""
    sampled = [-1] * work.shape.tokens
    return sampled + [i for ids in work.observation_ids[index] for i in (*ids, *sampled)]


def agrees(completion: Sequence[int], layout: Sequence[int]) -> bool:
    return len(completion) == len(layout) and all(
        place in (-1, token) for token, place in zip(completion, layout, strict=True)
    )


class TestTask:
    def test_observations_are_what_the_experts_queries_bring(self, work: Task) -> None:
        for question, read in zip(work.questions, work.observations, strict=True):
            (text,) = read
            assert question.supporting_titles[0] in text
            assert text.startswith("<information>") and text.count("Doc ") == 2

    def test_work_is_counted(self, work: Task) -> None:
        prompts = [len(prompt) for prompt in work.prompts]
        read = [len(ids) for (ids,) in work.observation_ids]
        assert work.generated_tokens == 4 * 2 * 6
        assert work.lengths() == [p + r + 12 for p, r in zip(prompts, read, strict=True)]
        assert work.trained_tokens == 2 * sum(work.lengths())
        assert work.read_tokens == sum(prompts) + 2 * sum(read)
        assert work.observation_tokens == sum(read) / 2

    def test_other_work_is_refused(self, work: Task) -> None:
        good = [max(0, place) for place in expected(work, 0)]
        work.check(0, good)
        with pytest.raises(RuntimeError, match=f"{len(good) + 1} tokens and not {len(good)}"):
            work.check(0, [*good, 0])
        changed = list(good)
        changed[work.shape.tokens] += 1
        with pytest.raises(RuntimeError, match="another observation after turn 1"):
            work.check(0, changed)

    def test_rewards_differ_and_come_from_the_tokens_alone(self) -> None:
        scores = [task.reward(ids) for ids in ([1, 2], [2, 1], [1, 2, 3], [1, 2])]
        assert len(set(scores)) == 3 and scores[0] == scores[3]
        assert all(0 <= score < 1 for score in scores)


def test_our_side_plays_the_script_and_trains_on_every_row(
    policy: SearchPolicy, work: Task
) -> None:
    stepper = Stepper(policy, work, optimizer_steps=2, microbatch_tokens=MICROBATCH)
    batch = stepper.play(seed=3)
    assert int(batch.action_mask.sum()) == work.generated_tokens
    assert int(batch.attention_mask.sum()) == work.trained_tokens
    for row in range(len(batch)):
        question = row // 2
        ids = batch.input_ids[row][batch.attention_mask[row]].tolist()
        start = len(work.prompts[question])
        assert tuple(ids[:start]) == work.prompts[question]
        assert agrees(ids[start:], expected(work, question))
    before = [weight.clone() for weight in policy.trainable_parameters()]
    seconds = stepper.step(seed=3)
    assert seconds.sampling > 0 and seconds.update > 0
    moved = [
        not torch.equal(a, b) for a, b in zip(before, policy.trainable_parameters(), strict=True)
    ]
    assert any(moved)


@pytest.mark.parametrize("shape", [TWO_TURNS, Shape(2, 2, turns=1, tokens=5)])
@pytest.mark.parametrize("optimizer_steps", [1, 2])
def test_trl_samples_the_same_tokens_and_reads_the_same_observations(
    policy: SearchPolicy, shape: Shape, optimizer_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = build_task(shape, policy.tokenizer)
    seen: list[Sequence[int]] = []

    def noted(completion: Sequence[int]) -> float:
        seen.append(completion)
        return task.reward(completion)

    monkeypatch.setattr(trl_side, "reward", noted)
    rows = trl_side.rows_of(work, optimizer_steps, MICROBATCH)
    base, _ = load_base("tiny", torch.float32, torch.device("cpu"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measured = trl_side.measure(work, base, OPTIONS, 2, optimizer_steps, rows)
    # The rollout batch that warms up and two more, questions in order.
    assert len(seen) == 3 * shape.episodes
    for place, completion in enumerate(seen):
        assert agrees(completion, expected(work, place % shape.episodes // shape.group_size))
    assert len({tuple(completion) for completion in seen}) == len(seen)
    assert len(measured.seconds) == len(measured.told["sampling_seconds"]) == 2
    for whole, sampling in zip(measured.seconds, measured.told["sampling_seconds"], strict=True):
        assert 0 < sampling < whole
    assert measured.peak_bytes >= measured.loaded_bytes > 0


def test_trls_micro_batches_are_those_that_fit_in_ours(work: Task) -> None:
    longest = max(work.lengths())
    assert trl_side.rows_of(work, 1, 2 * longest) == 2
    assert trl_side.rows_of(work, 1, 4 * longest - 1) == 2  # 3 do not divide 4
    assert trl_side.rows_of(work, 2, 9 * longest) == 2
    assert trl_side.rows_of(work, 1, 1) == 1


class TestUpdate:
    def gradient_of(self, side: str, batch: Batch) -> dict[str, torch.Tensor]:
        policy = endless_policy(OPTIONS)
        update.spread(policy)
        update.UPDATES[side](policy, 2)(batch)
        return update.gradient(policy)

    def test_both_sides_give_the_same_gradient(self, policy: SearchPolicy) -> None:
        fresh = endless_policy(OPTIONS)
        update.spread(fresh)
        batch = update.make_batch(fresh, rows=4, length=202, microbatch_rows=2)
        assert batch.action_mask.sum(1).tolist() == [96] * 4
        assert batch.turn_ids.max() == 2 and bool(batch.action_mask[:, -1].all())
        ours, plain = (self.gradient_of(side, batch) for side in update.SIDES)
        assert len(ours) == 14 and all(bool(g.any()) for g in ours.values())
        assert update.max_relative_difference(ours, plain) < update.CLOSE
        # The check notices a reward that is another one.
        other = replace(batch, rewards=batch.rewards.roll(1, 0))
        wrong = self.gradient_of("plain", other)
        assert update.max_relative_difference(ours, wrong) > 0.1

    def test_the_difference_by_hand(self) -> None:
        one = {"a": torch.tensor([1.0, 4.0]), "b": torch.tensor([10.0])}
        two = {"a": torch.tensor([1.5, 4.0]), "b": torch.tensor([10.0])}
        assert update.max_relative_difference(two, one) == 0.125  # 0.5 of 4
        assert update.max_relative_difference(one, {"a": one["a"]}) == float("inf")
        assert update.max_relative_difference({}, {}) == float("inf")
        zeros = {"a": torch.zeros(2)}
        assert update.max_relative_difference(zeros, zeros) == float("inf")
        for name in one:
            broken = {**one, name: one[name] * float("nan")}
            assert math.isnan(update.max_relative_difference(broken, one))

    @pytest.mark.timeout(900)  # two processes on a busy machine
    def test_the_command_compares_two_processes(self, tmp_path, capsys) -> None:
        out = tmp_path / "numbers.json"
        flags = ["--model", "tiny", "--layers", "1", "--rows", "2", "--length", "170"]
        assert command.main(["update", *flags, "--repeats", "1", "--out", str(out)]) == 0
        told = json.loads(out.read_text())
        assert 0 <= told["gradient_difference"] <= update.CLOSE
        for side in update.SIDES:
            assert told[side]["median_seconds"] == told[side]["seconds"][0] > 0
            assert told[side]["peak_bytes"] > told[side]["loaded_bytes"] // 2
        speed = told["plain"]["median_seconds"] / told["ours"]["median_seconds"]
        assert told["ratios"]["speed"] == speed
        assert "largest relative difference of the gradients" in capsys.readouterr().out


class TestPrompts:
    def test_updates_of_both_kinds_agree(self, tmp_path, capsys) -> None:
        out = tmp_path / "numbers.json"
        flags = ["--model", "tiny", "--layers", "1", "--repeats", "1", "--out", str(out)]
        assert command.main(["prompts", *flags]) == 0
        told = json.loads(out.read_text())
        assert 0 < told["largest_relative_difference"] <= update.CLOSE
        assert told["medians"] == {name: taken for name, (taken,) in told["seconds"].items()}
        assert set(told["medians"]) == {"once", "whole"}
        first, *_ = capsys.readouterr().out.splitlines()
        tokens, passed, *_ = (int(word) for word in first.split() if word.isdigit())
        assert passed < tokens / 2

    def test_no_repeats_are_refused(self, capsys) -> None:
        assert command.main(["prompts", "--repeats", "0"]) == 2
        assert capsys.readouterr().err == "--repeats: give at least 1\n"


class TestProfile:
    def test_the_share_by_hand(self) -> None:
        found = [("aten::mm", 2.0), ("aten::_scaled_dot_product_flash_attention_for_cpu", 1.0)]
        found += [("aten::mul", 0.75), (operators.BETWEEN, 0.25)]
        listed = [operators.Operator(name, seconds, 1) for name, seconds in found]
        assert operators.share_outside(listed) == 0.25

    def test_operators_are_those_that_ran(self) -> None:
        matrix = torch.ones(300, 300)
        found = {o.name: o for o in operators.operators_of(lambda: (matrix @ matrix).exp())}
        assert found["aten::mm"].calls == found["aten::exp"].calls == 1
        assert operators.BETWEEN in found and operators.WHOLE not in found
        assert operators.is_product("aten::mm") and not operators.is_product("aten::exp")

    def test_a_step_is_mostly_named(self, capsys, tmp_path) -> None:
        out = tmp_path / "numbers.json"
        flags = ["--model", "tiny", "--layers", "1", "--questions", "1", "--group-size", "2"]
        argv = ["profile", *flags, "--turns", "2", "--tokens", "4", "--out", str(out)]
        assert command.main(argv) == 0
        told = json.loads(out.read_text())
        for phase in ("rollout", "update"):
            names = {o["name"] for o in told[phase]["operators"]}
            assert {"aten::mm", operators.BETWEEN} <= names
            assert any(name.startswith(operators.ATTENTION) for name in names)
            assert 0 < told[phase]["share_outside"] < 1
        assert "aten::_scaled_dot_product_flash_attention_for_cpu_backward" in names


def test_a_target_is_met_or_missed() -> None:
    assert sides.against("speed", 3.0, ">= 3").endswith("3.00   target >= 3: met")
    assert sides.against("memory", 0.61, "<= 0.6").endswith("0.61   target <= 0.6: missed")
    assert sides.against("memory", 0.5).split() == ["memory", "0.50"]


@pytest.mark.parametrize(
    ("argv", "culprit"),
    [
        (["trl", "--group-size", "1"], "group_size is 1; give at least 2"),
        (["trl", "--questions", "0"], "questions is 0"),
        (["trl", "--optimizer-steps", "3"], "--optimizer-steps"),
        (["trl", "--steps", "0"], "--steps"),
        (["update", "--rows", "1"], "--rows"),
        (["update", "--length", "100"], "--length"),
        (["profile", "--model", "tiny", "--layers", "1", "--turns", "6"], "turns is 6"),
        (["scaling", "--repeats", "0"], "--repeats"),
    ],
)
def test_bad_input_is_named_in_one_line(argv: list[str], culprit: str, capsys) -> None:
    assert command.main(argv) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert culprit in line
