"""tokens.jsonl: the numbers are those that the update was made with."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from jsonargparse import ArgumentParser

from agents import command_line, metrics
from agents.assembly import build_parts
from agents.batching import to_batch
from agents.config import TRAIN_LAYOUT, RunConfig
from agents.interruption import Interrupts
from agents.learning_signal import Signal
from agents.policy import SearchPolicy
from agents.starting import begin
from agents.token_transcripts import TokenTranscripts, choose, pieces, place
from agents.train_command import main
from agents.training import play_step, train_step
from tests.agents import builds, runs
from tests.agents.training_parts import GRPO, sampled, still


def test_a_step_writes_what_the_trainer_used(tmp_path: Path) -> None:
    """Against the batch of the same step, played again, and the weights before and after."""
    file = runs.config_file(tmp_path, warm_start={"steps": 0}, run={"token_transcripts": 3})
    argv = ["--config", str(file), "--run.dir", str(tmp_path / "run")]
    values, _ = command_line.parse(ArgumentParser(), TRAIN_LAYOUT, argv, {})
    parts = build_parts(RunConfig(**values))
    builds.randomise(parts.policy, 0.1)
    trajectories, _ = play_step(parts, 1)
    batch = to_batch(trajectories, parts.policy.pad_id)
    parts.folder.mkdir()
    trainer, log = begin(parts).trainer, metrics.RunLog(parts.folder, 1)
    train_step(parts, trainer, log, 1, Interrupts())
    log.close()
    with torch.no_grad():
        after, _ = parts.policy.logprobs(batch.input_ids, batch.action_mask, 1.0)
    advantages = parts.algorithm.advantage(batch)

    rows = runs.read_rows(tmp_path / "run" / "tokens.jsonl")
    assert [row["row"] for row in rows] == choose(8, 3, 7, 1) and len(rows) == 3
    assert {row["step"] for row in rows} == {1}
    moved = 0.0
    for row in rows:
        index, length = row["row"], len(row["ids"])
        mask = batch.action_mask[index]
        assert row["ids"] == batch.input_ids[index][batch.attention_mask[index]].tolist()
        assert row["turn_ids"] == batch.turn_ids[index, :length].tolist()
        # Equal to the last bit: what was sampled, and what the algorithm made of the whole batch.
        for name, expected in (("old_logprobs", batch.old_logprobs), ("advantages", advantages)):
            assert torch.equal(torch.tensor(row[name]), expected[index][mask])
        ratios = (after - batch.old_logprobs)[index][mask]
        assert torch.allclose(torch.tensor(row["log_ratios"]), ratios, atol=1e-5)
        moved = max(moved, float(ratios.abs().max()))
        # It is the very episode of that line of rollouts.jsonl.
        said = runs.read_rows(tmp_path / "run" / "rollouts.jsonl")[index]
        action = [i for i, turn in zip(row["ids"], row["turn_ids"], strict=True) if turn == 0]
        assert parts.policy.decode(action) == said["steps"][0]["text"]
    assert moved > 1e-3, "the update moved nothing: the ratios show nothing"


def test_without_transcripts_no_file_is_written(tmp_path: Path) -> None:
    file = runs.config_file(
        tmp_path,
        warm_start={"steps": 0},
        evaluation={"questions": 0},
        run={"steps": 1, "token_transcripts": 0},
    )
    assert main(["--config", str(file), "--run.dir", str(tmp_path / "run")]) == 0
    assert not (tmp_path / "run" / "tokens.jsonl").exists()


def test_numbers_read_back_equal_and_what_json_has_not_is_null(policy: SearchPolicy) -> None:
    batch = sampled(policy, rows=4, spread=0.3)
    wild = batch.old_logprobs.clone()
    places = batch.action_mask.nonzero()
    wild[tuple(places[0])], wild[tuple(places[1])] = -math.inf, 1 / 3
    batch = replace(batch, old_logprobs=wild)
    transcripts = TokenTranscripts(range(4))
    transcripts.watch(Signal(batch, GRPO.advantage(batch), None))
    lines = json.loads(json.dumps(transcripts.lines(still(policy, GRPO)), allow_nan=False))
    found = lines[0]["old_logprobs"]
    assert found[0] is None and lines[0]["log_ratios"][0] is None
    assert found[1] == 0.33333334  # the shortest decimal of float32(1/3)
    for row, line in enumerate(lines):
        expected = batch.old_logprobs[row][batch.action_mask[row]].numpy()
        read = np.array([-math.inf if x is None else x for x in line["old_logprobs"]], np.float32)
        assert (read == expected).all()


def test_nothing_watched_is_nothing_told(policy: SearchPolicy) -> None:
    trainer = still(policy, GRPO)
    transcripts = TokenTranscripts([])
    trainer.update(sampled(policy, rows=4), 0, transcripts.watch)
    assert transcripts.lines(trainer) == []


def test_the_choice_is_the_seeds_and_the_steps(policy: SearchPolicy) -> None:
    assert choose(64, 4, 1, 2) == choose(64, 4, 1, 2)
    assert len({tuple(choose(64, 4, seed, step)) for seed in (1, 2) for step in range(10)}) == 20
    assert choose(3, 4, 0, 1) == [0, 1, 2] and choose(3, 0, 0, 1) == []
    assert {row for step in range(200) for row in choose(16, 4, 0, step)} == set(range(16))


def test_equal_episodes_are_told_apart_by_identity() -> None:
    one, other = (builds.trajectory(((1,), (2,))) for _ in range(2))
    assert one == other and place(other, [one, other]) == 1


@pytest.mark.parametrize("text", ["naïve 東京 \U0001f600<answer>x</answer>\n", "plain", ""])
def test_pieces_join_to_the_text_and_letters_stay_whole(policy: SearchPolicy, text: str) -> None:
    ids = policy.encode(text)
    found = pieces(policy, ids)
    assert len(found) == len(ids) and "".join(found) == text
    assert "\ufffd" not in "".join(found)


def test_bytes_that_form_no_letter_hold_back_nothing(policy: SearchPolicy) -> None:
    broken = policy.encode("東")[:1]
    found = pieces(policy, [*broken * 9, *policy.encode("fine")])
    assert "".join(found).endswith("fine") and "\ufffd" in "".join(found)
    assert max(map(len, found)) <= 8
