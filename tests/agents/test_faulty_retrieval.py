"""T11 at large: a retriever that fails in 30 % of its calls never corrupts a run."""

import json

import pytest

from agents.batching import to_batch
from agents.rollout import failed, usable
from agents.train_command import main
from envs.types import StopReason
from retrieval.cache import CachedRetriever
from retrieval.corpus import Corpus
from tests.agents import builds, faulty_bm25, runs

QUESTIONS = builds.world().questions
CORPUS = Corpus.of(builds.world().passages)
TITLES = [passage.title for passage in CORPUS.passages]


def play(policy, share, seed):
    """48 episodes of three searches each, no two alike, and an answer."""

    def write(row, turn):
        text = f"<search>{TITLES[(row * 3 + turn) % len(TITLES)]} {row} {turn}</search>"
        return policy.encode(text if turn < 3 else "<answer>nobody</answer>")

    faulty = faulty_bm25.build(faulty_bm25.Config(share, seed), CORPUS)
    rollout = builds.build_rollout(
        builds.ScriptedEngine(write),
        policy,
        retriever=CachedRetriever(faulty),
        max_turns=4,
        max_episodes=4,  # a batch search for every group and turn
    )
    return faulty, rollout.play(QUESTIONS[:12], 4, builds.sampling())


def read(trajectory):
    """What an episode read, wrote and was answered; a script's log-probabilities are noise."""
    turns = [(turn.prompt_ids, turn.action_ids, turn.step) for turn in trajectory.turns]
    return trajectory.group_id, trajectory.episode, turns


@pytest.mark.parametrize("seed", range(4))
def test_every_episode_is_as_without_faults_or_is_flagged(policy, seed) -> None:
    _, clean = play(policy, 0.0, 0)
    assert not any(failed(trajectory.episode) for trajectory in clean)
    faulty, played = play(policy, 0.3, seed)
    assert 0 < faulty.failed < faulty.calls

    kept = usable(played)
    by_place = list(zip(played, clean, strict=True))
    assert [read(t) for t in kept] == [read(c) for t, c in by_place if not failed(t.episode)]
    broken = [(t, c) for t, c in by_place if failed(t.episode)]
    assert len(broken) + len(kept) == 48
    for trajectory, whole in broken:
        assert trajectory.episode.stop_reason is StopReason.RETRIEVAL_ERROR
        *sound, last = trajectory.turns
        assert read(trajectory)[2][:-1] == read(whole)[2][: len(sound)]
        # The turn that failed saw nothing, and nothing was made up for it.
        assert (last.step.observation, last.step.hits) == ("", ())
    # What is trained on is built of the sound ones only.
    assert to_batch(kept, 0).action_mask.sum() == sum(t.num_action_tokens for t in kept)


def test_a_run_counts_its_faults_and_goes_on(tmp_path, capsys) -> None:
    config = runs.config_file(
        tmp_path,
        engine={"name": "tests.agents.searching_engine", "max_tokens": 24},
        retriever={"name": "tests.agents.faulty_bm25", "seed": 5},
        rollout={"questions_per_step": 4, "group_size": 4},
    )
    folder = tmp_path / "run"
    result = runs.call(capsys, main, "--config", config, "--run.dir", folder)
    assert result.status == 0, result.err

    lines = runs.read_rows(folder / "metrics.jsonl")
    episodes = runs.read_rows(folder / "rollouts.jsonl")
    assert len(lines) == 4 and len(episodes) == 4 * 16
    assert sum(line["infra_errors"] for line in lines) > 0
    for line in lines:
        mine = [episode for episode in episodes if episode["step"] == line["step"]]
        reasons = [json.dumps(episode).count('"retrieval_error"') for episode in mine]
        assert line["infra_errors"] == sum(reasons) < 16
        # A number that is none is written as null.
        assert all(line[name] is not None for name in ("policy_loss", "grad_norm", "entropy"))
        sound = [e["total_reward"] for e, broken in zip(mine, reasons, strict=True) if not broken]
        assert line["reward_mean"] == pytest.approx(sum(sound) / len(sound))
