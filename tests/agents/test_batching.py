"""Trajectories -> Batch. T1 (token-exact) and T2 (mask from provenance) of the lessons."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.batching import micro_batches, to_batch
from agents.engine import Sampling
from agents.generation.hf import HFEngine
from agents.policy import SearchPolicy
from agents.types import Trajectory, Turn
from tests.agents import builds

SAMPLING = Sampling(max_tokens=10, temperature=1.0, stop=builds.STOP, seed=3)
IDS = st.integers(0, 5)  # so few that sampled tokens often equal the pad id
TURN = st.tuples(st.lists(IDS, max_size=4), st.lists(IDS, min_size=1, max_size=4))
EPISODES = st.lists(st.lists(TURN, min_size=1, max_size=4), min_size=1, max_size=5)


def scattered(policy: SearchPolicy, text: str, rng: random.Random) -> list[int]:
    """The ids of a text in a tokenisation that encoding it would never give: cut anywhere."""
    ids: list[int] = []
    while text:
        cut = rng.choice([1, 1, 2, 5, len(text)])
        ids += policy.encode(text[:cut])
        text = text[cut:]
    return ids


def write_anything(policy: SearchPolicy, seed: int):
    """Turns of every kind: searches, answers, prose, broken UTF-8, special tokens."""
    titles = [passage.title for passage in builds.world().passages or ()]

    def write(row: int, turn: int) -> list[int]:
        rng = random.Random(seed * 1_000_003 + row * 101 + turn)
        kind = rng.choice(["search", "search", "search", "answer", "prose", "ids"])
        if kind == "ids":
            return [rng.randrange(1024) for _ in range(rng.randint(1, 12))]
        text = {
            "search": f"<think>é \u2028 東京</think><search> {rng.choice(titles)} </search>",
            "answer": f"so <answer>{rng.choice(titles)}</answer>",
            "prose": "I wonder <search> about",
        }[kind]
        ids = scattered(policy, text, rng)
        return [*ids, policy.tokenizer.eos_token_id] if kind == "prose" else ids

    return write


def observed(policy: SearchPolicy, turn: Turn, framing: str) -> tuple[int, ...]:
    """What follows a turn, in ChatML written out by hand."""
    before = after = "\n"
    if framing == "chat":
        # The template's end of a message, unless the turn ended with that very token.
        ended = turn.action_ids[-1] == policy.tokenizer.eos_token_id
        before = ("" if ended else "<|im_end|>") + "\n<|im_start|>user\n"
        after = "<|im_end|>\n<|im_start|>assistant\n"
    encode = policy.tokenizer.encode
    return (
        *encode(before, add_special_tokens=False),
        *policy.encode(turn.step.observation),
        *encode(after, add_special_tokens=False),
    )


def check_exact(
    policy: SearchPolicy, trajectories: list[Trajectory], engine: builds.Recorder, framing: str
) -> int:
    """Every id is what the engine read or wrote, in that order; how many were not canonical."""
    batch = to_batch(trajectories, policy.pad_id)
    episodes = engine.episodes()
    assert len(trajectories) == len(episodes)
    scattered_turns = 0
    for row, (trajectory, (read, written)) in enumerate(zip(trajectories, episodes, strict=True)):
        question = trajectory.episode.question.prompt
        # ChatML, written out by hand.
        prompt = (
            "<|im_start|>user\nLook facts up with <search> query </search>, then give <answer> "
            f"answer </answer>. Question: {question}<|im_end|>\n<|im_start|>assistant\n"
        )
        assert read == [
            tuple(policy.tokenizer.encode(prompt, add_special_tokens=False)),
            *(observed(policy, turn, framing) for turn in trajectory.turns[:-1]),
        ]
        assert [turn.prompt_ids for turn in trajectory.turns] == read
        assert [turn.action_ids for turn in trajectory.turns] == [s.ids for s in written]
        assert [turn.logprobs for turn in trajectory.turns] == [s.logprobs for s in written]
        flat = [i for r, s in zip(read, written, strict=True) for i in (*r, *s.ids)]
        assert batch.input_ids[row, : len(flat)].tolist() == flat
        assert batch.attention_mask[row].sum() == len(flat)
        sampled = [i for s in written for i in s.ids]
        assert batch.input_ids[row][batch.action_mask[row]].tolist() == sampled
        logprobs = torch.tensor([x for s in written for x in s.logprobs])
        assert torch.equal(batch.old_logprobs[row][batch.action_mask[row]], logprobs)
        scattered_turns += sum(policy.encode(policy.decode(s.ids)) != [*s.ids] for s in written)
    return scattered_turns


@pytest.mark.parametrize("framing", ["inline", "chat"])
def test_t1_trained_ids_are_sampled_and_observed_ids_scripted(
    policy: SearchPolicy, framing: str
) -> None:
    engine = builds.ScriptedEngine(write_anything(policy, seed=1))
    rollout = builds.build_rollout(engine, policy, framing=framing, max_turns=4)
    questions = [*builds.world().questions] * 2
    trajectories = rollout.play(questions[:40], 4, SAMPLING)
    turns = [len(t.turns) for t in trajectories]
    assert len(trajectories) == 160 and {1, 2, 3, 4} == set(turns)
    assert sum(t.stratum for t in trajectories) > 80
    assert check_exact(policy, trajectories, engine, framing) > 80


def test_t1_trained_ids_are_sampled_and_observed_ids_of_the_model(policy: SearchPolicy) -> None:
    engine = builds.Recorder(HFEngine(policy))
    rollout = builds.build_rollout(engine, policy, max_turns=3, max_episodes=100)
    trajectories = rollout.play(
        [*builds.world().questions, *builds.world().questions][:50], 4, SAMPLING
    )
    assert len(trajectories) == 200
    assert check_exact(policy, trajectories, engine, "inline") > 100


@settings(max_examples=60, deadline=None)
@given(episodes=EPISODES, pad_id=IDS)
def test_t2_the_mask_is_the_set_of_sampled_positions(episodes, pad_id) -> None:
    trajectories = [
        builds.trajectory(
            *turns, rewards=[0.25 * (k + 1) for k in range(len(turns))], group_id=7 * row
        )
        for row, turns in enumerate(episodes)
    ]
    batch = to_batch(trajectories, pad_id)
    shape = batch.input_ids.shape
    for name in ("attention_mask", "action_mask", "turn_ids", "old_logprobs"):
        assert getattr(batch, name).shape == shape
    assert shape[1] == max(sum(len(c) + len(a) for c, a in turns) for turns in episodes)
    for row, turns in enumerate(episodes):
        ids, mask, turn_ids, logprobs = [], [], [], []
        for index, (context, action) in enumerate(turns):
            ids += [*context, *action]
            mask += [False] * len(context) + [True] * len(action)
            turn_ids += [-1] * len(context) + [index] * len(action)
            logprobs += [0.0] * len(context) + [-1.0] * len(action)
        padding = shape[1] - len(ids)
        assert batch.input_ids[row].tolist() == ids + [pad_id] * padding
        assert batch.attention_mask[row].tolist() == [True] * len(ids) + [False] * padding
        assert batch.action_mask[row].tolist() == mask + [False] * padding
        assert batch.turn_ids[row].tolist() == turn_ids + [-1] * padding
        assert batch.old_logprobs[row].tolist() == logprobs + [0.0] * padding
        # T3: a turn's reward stands in the column of that turn, and the turn has action tokens.
        rewards = [0.25 * (k + 1) for k in range(len(turns))]
        assert batch.rewards[row].tolist() == rewards + [0.0] * (
            batch.rewards.shape[1] - len(turns)
        )
        assert set(batch.turn_ids[row][batch.action_mask[row]].tolist()) == set(range(len(turns)))
    assert batch.group_ids.tolist() == [7 * row for row in range(len(episodes))]


def test_strata_are_executed_searches() -> None:
    pairs = [([1], [2]), ([1], [2]), ([1], [2])]
    trajectories = [builds.trajectory(*pairs, searches=n) for n in (0, 1, 2)]
    assert to_batch(trajectories, 0).strata.tolist() == [0, 1, 2]


def test_no_trajectories_is_an_error() -> None:
    with pytest.raises(ValueError, match="no trajectories"):
        to_batch([], 0)


PROMPTS = st.sampled_from([(), (1,), (2, 2, 2), (3,) * 9, (4,) * 20])


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 40), PROMPTS), max_size=30), budget=st.integers(1, 100)
)
def test_t15_micro_batches_hold_every_row_once_within_the_budget(rows, budget) -> None:
    prompts = [prompt for _, prompt in rows]
    lengths = [rest + len(prompt) + 1 for rest, prompt in rows]
    groups = micro_batches(lengths, prompts, budget)
    assert sorted(row for group in groups for row in group) == list(range(len(lengths)))
    for group in groups:
        padded = max(lengths[row] for row in group) * len(group)
        assert padded <= budget or len(group) == 1
    if groups:
        assert max(lengths) == lengths[groups[0][0]]


@settings(max_examples=50, deadline=None)
@given(lengths=st.lists(st.integers(1, 40), max_size=30), budget=st.integers(1, 100))
def test_t15_without_prompts_they_go_by_length(lengths, budget) -> None:
    groups = micro_batches(lengths, [()] * len(lengths), budget)
    longest = [lengths[row] for group in groups for row in group]
    assert longest == sorted(lengths, reverse=True)


@pytest.mark.parametrize(
    ("lengths", "budget", "expected"),
    [
        # 5 alone is over 4; 3 + 1 padded to 3 is 6 > 4; 1 and 1 make 2.
        ([1, 5, 3, 1], 4, [[1], [2], [0, 3]]),
        ([2, 2, 2], 4, [[0, 1], [2]]),
        ([2, 2, 2], 10**9, [[0, 1, 2]]),  # larger than the batch
        ([2, 2, 2], 1, [[0], [1], [2]]),  # smaller than one row
        ([], 4, []),
    ],
)
def test_t15_micro_batches_by_hand(lengths, budget, expected) -> None:
    assert micro_batches(lengths, [()] * len(lengths), budget) == expected


@pytest.mark.parametrize(
    ("lengths", "budget", "expected"),
    [
        # By length alone 0 and 1 would go together, and each prompt would be read twice.
        ([10, 10, 8, 9], 20, [[0, 2], [1, 3]]),
        # Row 2 is 4 tokens shorter than row 0, which is more than the prompt's 3.
        ([10, 10, 6, 9], 20, [[0, 1], [3, 2]]),
        # What is left of a run goes with the next, whose rows can be longer: 2 x 11 tokens.
        ([12, 11, 9, 10], 22, [[0], [2, 1], [3]]),
        ([12, 11, 9, 10], 20, [[0], [2], [1], [3]]),
    ],
)
def test_rows_of_a_prompt_stay_together(lengths, budget, expected) -> None:
    a, b = (1, 2, 3), (4, 5, 6)
    assert micro_batches(lengths, [a, b, a, b], budget) == expected
