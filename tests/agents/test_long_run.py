"""Six hundred steps with faults of every kind: each episode is accounted for, from the files."""

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.agents import runs
from tests.agents.forks import Forks

STEPS, GROUPS, ROUNDS, SIZE = 600, 2, 2, 4
ENGINE = '''"""The policy's engine, but for the first turn of half the episodes, which searches."""
from dataclasses import dataclass
from agents.engine import Sample
from agents.generation.hf import HFEngine

@dataclass(frozen=True)
class Config:
    """No settings."""

def build(config, policy):
    class Session:
        def __init__(self, session, seed):
            self.session, self.seed = session, seed
            self.first = True

        def turn(self, contexts, ended=None):
            turns = self.session.turn(contexts)
            if self.first:
                for row in list(turns)[::2]:
                    ids = policy.encode(f"<search>{self.seed} {row}</search>")
                    turns[row] = Sample(tuple(ids), (-2.0,) * len(ids))
            self.first = False
            return turns

    class Searching(HFEngine):
        def open(self, prompts, group_size, sampling):
            return Session(super().open(prompts, group_size, sampling), sampling.seed)

    return Searching(policy)
'''
BAD_STEPS = (57, 211, 480)  # their losses are no numbers


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_episode_is_accounted_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retriever that fails in 30 % of its calls, three NaN, three SIGKILL and a Ctrl-C."""
    (tmp_path / "long_plugs").mkdir()
    (tmp_path / "long_plugs" / "engine.py").write_text(ENGINE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ids = GROUPS * ROUNDS  # of each step, whether or not it draws twice
    nan = [group for step in BAD_STEPS for group in range(ids * (step - 1), ids * step)]
    config = runs.config_file(
        tmp_path,
        run={"steps": STEPS, "save_every": 20, "keep_checkpoints": 2},
        engine={"name": "long_plugs.engine", "max_tokens": 8},
        retriever={"name": "tests.agents.faulty_bm25", "share": 0.3},
        rollout={"questions_per_step": GROUPS, "group_size": SIZE},
        sampling={"name": "dynamic", "rounds": ROUNDS},
        algorithm={"name": "tests.agents.faulty_grpo", "nan": nan},
        penalty={"name": "none"},
        guard={"window": 5, "lr_factor": 0.9, "max_rollbacks": 3},
        warm_start={"steps": 0},
        evaluation={"questions": 0},
    )
    folder, log = tmp_path / "run", tmp_path / "log"
    draw = random.Random(6)
    argv: list[object] = ["--config", config, "--run.dir", folder]
    ends = [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGKILL, -9), (signal.SIGKILL, -9)]
    with Forks() as server:
        for number, (sent, status) in enumerate(ends):
            process = server.start(log, argv)
            wait_for(folder, 120 * number + draw.randrange(20, 120), process, log)
            os.kill(process, sent)
            assert server.wait() == status, log.read_text()[-2000:]
            argv = ["--resume", folder]
        assert server.run(log, argv) == 0, log.read_text()[-2000:]
    check(folder)


def wait_for(folder: Path, lines: int, process: int, log: Path) -> None:
    file = folder / "metrics.jsonl"
    while not file.exists() or file.read_bytes().count(b"\n") < lines:
        assert Path(f"/proc/{process}").exists(), log.read_text()[-2000:]
        time.sleep(0.01)


def check(folder: Path) -> None:
    lines = runs.read_rows(folder / "metrics.jsonl")
    episodes = runs.read_rows(folder / "rollouts.jsonl")
    events = runs.read_rows(folder / "events.jsonl")
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    played = Counter(episode["step"] for episode in episodes)
    failed = Counter(e["step"] for e in episodes if e["stop_reason"] == "retrieval_error")
    for line in lines:
        step = line["step"]
        assert line["episodes"] == played[step]
        assert line["infra_errors"] == failed[step]
        accounted = line["trained_episodes"] + line["infra_errors"] + line["dropped_episodes"]
        assert line["episodes"] == accounted
    total = {name: sum(line[name] for line in lines) for name in COUNTS}
    assert total["episodes"] == len(episodes) >= STEPS * GROUPS * SIZE
    assert all(count > 0 for count in total.values())
    # No group twice, none cut short by a kill.
    assert set(Counter(episode["group_id"] for episode in episodes).values()) == {SIZE}
    # What a rollback undid is known by its event: the rest is what the final weights were made of.
    assert [(e["step"], e["kind"], e["action"]) for e in events] == [
        (step, "skipped_steps", "rolled back") for step in BAD_STEPS
    ]
    for event in events:
        assert 0 < event["step"] - event["restored"] <= 20 + 20 + 5
    assert [line["step"] for line in lines if line["skipped_steps"]] == list(BAD_STEPS)
    assert not list(folder.rglob("*writing*"))


COUNTS = ("episodes", "trained_episodes", "infra_errors", "dropped_episodes")
