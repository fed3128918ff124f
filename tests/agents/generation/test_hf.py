"""The engine with a kept cache: T6 of the lessons, against recomputation from scratch."""

import copy

import pytest
import torch

from agents.batching import to_batch
from agents.generation import hf
from agents.generation.hf import HFEngine, HFSession
from agents.policy import SearchPolicy
from agents.seeding import Draw, derive
from envs.actions import parse
from tests.agents import builds
from tests.agents.generation.sessions import PROMPTS, Script, sampling


@torch.no_grad()
def full_logits(policy: SearchPolicy, ids: list[int]) -> torch.Tensor:
    """(T, V) of a row alone, without any cache, in float64."""
    return policy.model(input_ids=torch.tensor([ids])).logits[0].double()


@pytest.mark.parametrize(
    ("temperature", "read_tokens"), [(0.7, 2048), (1.0, 2048), (1.3, 2048), (1.3, 20), (1.3, 1)]
)
def test_t6_logprobs_are_those_of_the_whole_context(
    policy, temperature, read_tokens, monkeypatch
) -> None:
    monkeypatch.setattr(hf, "READ_TOKENS", read_tokens)
    script = Script(policy, sampling(temperature=temperature, seed=12)).play_all()
    lengths = {len(ids) for turn in script.turns for ids in turn.values()}
    assert len(lengths) > 6 and [len(turn) for turn in script.turns] == [12, 9, 7, 5]
    worst = 0.0
    for ids, sampled in zip(script.ids, script.sampled, strict=True):
        every = torch.log_softmax(full_logits(policy, ids) / temperature, dim=-1)
        for position, token, logprob in sampled:
            assert ids[position] == token
            worst = max(worst, abs(every[position - 1, token].item() - logprob))
    assert worst < 2e-5


@pytest.mark.parametrize("compact_share", [0.0, 0.125, 1.0])
def test_t6_ids_are_those_of_a_sampler_written_from_scratch(
    policy, compact_share, monkeypatch
) -> None:
    """Inverse CDF over the full context with the same uniform draws, one row at a time."""
    monkeypatch.setattr(hf, "COMPACT_SHARE", compact_share)
    options = sampling(temperature=1.3, seed=11)
    script = Script(policy, options).play_all()
    generators = [
        torch.Generator().manual_seed(derive(11, Draw.GROUP, group)) for group in range(3)
    ]
    positions = [0] * len(script.ids)
    for turn in script.turns:
        shape = (4, options.max_tokens)
        draws = torch.cat(
            [torch.rand(shape, dtype=torch.float64, generator=group) for group in generators]
        )
        for row, ids in turn.items():
            for step, token in enumerate(ids):
                position = script.sampled[row][positions[row] + step][0]
                logits = full_logits(policy, script.ids[row][:position])[-1] / 1.3
                heights = logits.softmax(-1).cumsum(-1)
                expected = int((heights <= draws[row, step]).sum())
                # A draw within rounding of a step of the distribution function may fall either way.
                near = (heights - draws[row, step]).abs().min().item() < 1e-6
                assert token == expected or near
            positions[row] += len(ids)


def test_t6_greedy_takes_the_likeliest_token(policy) -> None:
    script = Script(policy, sampling(temperature=0.0), group_size=2).play_all()
    for ids, sampled in zip(script.ids, script.sampled, strict=True):
        logits = full_logits(policy, ids)
        for position, token, logprob in sampled:
            assert token == int(logits[position - 1].argmax())
            expected = torch.log_softmax(logits[position - 1], dim=-1)[token].item()
            assert logprob == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("temperature", [0.7, 1.3])
@pytest.mark.parametrize("framing", ["inline", "chat"])
def test_t6_the_ratio_of_a_rollout_is_one(policy, temperature, framing) -> None:
    """Through the real environment; the training pass is padded, the sampling pass is not."""
    engine = HFEngine(policy)
    rollout = builds.build_rollout(engine, policy, framing=framing, max_turns=3)
    options = builds.sampling(temperature=temperature, max_tokens=14)
    played = rollout.play(builds.world().questions[:6], 4, options)
    batch = to_batch(played, policy.pad_id)
    assert len({len(t.turns) for t in played} | {3}) >= 1 and len(set(batch.lengths.tolist())) > 4
    with torch.no_grad():
        logprobs, _ = policy.logprobs(batch.input_ids, batch.action_mask, temperature)
    ratios = (logprobs - batch.old_logprobs).exp()
    assert (ratios - 1).abs().max() < 1e-4
    assert int(batch.action_mask.sum()) > 500


def test_t6_a_searching_policys_observations_are_read_exactly(policy, monkeypatch) -> None:
    """Searches with real passages: the model's own turns are replaced by an actor's."""
    title = builds.world().questions[0].supporting_titles[0]
    forced = policy.encode(f"<search>{title}</search>")
    draw = HFSession._draw
    steps = iter(range(10**6))

    def forced_draw(session, hidden, uniform):
        # Four rows that all say the same: the k-th draw of a turn gives the k-th token.
        ids = [forced[next(steps) % len(forced)]] * len(hidden)
        every = torch.log_softmax(session._policy.logits(hidden).float(), dim=-1)
        logprobs = [every[row, ids[0]].item() for row in range(len(hidden))]
        assert len(draw(session, hidden, uniform)[0]) == len(hidden)
        return ids, logprobs

    monkeypatch.setattr(HFSession, "_draw", forced_draw)
    rollout = builds.build_rollout(HFEngine(policy), policy, max_turns=4)
    played = rollout.play(builds.world().questions[:2], 2, builds.sampling(max_tokens=30))
    assert all(t.stratum == 3 and len(t.turns) == 4 for t in played)
    assert all(parse(policy.decode(turn.action_ids)).content == title for turn in played[0].turns)
    batch = to_batch(played, policy.pad_id)
    with torch.no_grad():
        logprobs, _ = policy.logprobs(batch.input_ids, batch.action_mask, 1.0)
    assert torch.allclose(logprobs, batch.old_logprobs, atol=5e-5)


class Counting(SearchPolicy):
    """Keeps the shape of everything it reads."""

    shapes: tuple[tuple[int, ...], ...] = ()

    def hidden(self, input_ids, mask=None, positions=None, cache=None):
        self.shapes = (*self.shapes, tuple(input_ids.shape))
        return super().hidden(input_ids, mask, positions, cache)


def test_a_prompt_is_read_once_per_group_and_nothing_twice(policy) -> None:
    counting = copy.copy(policy)
    counting.__class__ = Counting
    session = HFEngine(counting).open(PROMPTS, 4, sampling(stop=(), max_tokens=5))
    assert counting.shapes == ((3, 7),)  # three prompts, the longest of 7 tokens; not 12 rows
    session.turn(dict.fromkeys(range(12), ()))
    # Five tokens are drawn and four of them read; the fifth waits for the observation.
    assert counting.shapes[1:] == ((12, 1),) * 4
    session.turn({0: [20, 21, 22], 7: [23]})
    assert counting.shapes[5:] == ((2, 4), *((2, 1),) * 4)


def test_texts_of_similar_length_are_read_together(policy, monkeypatch) -> None:
    monkeypatch.setattr(hf, "READ_TOKENS", 12)
    counting = copy.copy(policy)
    counting.__class__ = Counting
    session = HFEngine(counting).open(PROMPTS, 1, sampling(stop=(), max_tokens=1))
    session.turn(dict.fromkeys(range(3), ()))
    counting.shapes = ()
    session.turn({0: [20], 1: list(range(30, 41)), 2: [50, 51]})
    # Each begins with the token that it sampled last: 2, 12 and 3 tokens.
    assert counting.shapes == ((1, 12), (2, 3))


INSTRUCTION = [30, 31, 32, 33, 34]


@pytest.mark.parametrize("prompts", [[[*INSTRUCTION, *p] for p in PROMPTS], [INSTRUCTION] * 3])
def test_what_all_prompts_begin_with_is_read_once(policy, prompts) -> None:
    counting = copy.copy(policy)
    counting.__class__ = Counting
    session = HFEngine(counting).open(prompts, 2, sampling(temperature=0.0))
    # Where the prompts are equal each row still reads a token of its own.
    shared = min(5, min(map(len, prompts)) - 1)
    assert counting.shapes == ((1, shared), (3, max(map(len, prompts)) - shared))
    together = session.turn(dict.fromkeys(range(6), ()))
    for index, prompt in enumerate(prompts):
        alone = HFEngine(policy).open([prompt], 2, sampling(temperature=0.0)).turn({0: (), 1: ()})
        for sample in (0, 1):
            expected, found = alone[sample], together[2 * index + sample]
            assert found.ids == expected.ids
            assert found.logprobs == pytest.approx(expected.logprobs, abs=1e-5)


def test_the_same_seed_gives_the_same_samples(policy) -> None:
    first = Script(policy, sampling()).play_all()
    assert Script(policy, sampling()).play_all().sampled == first.sampled
    assert Script(policy, sampling(seed=8)).play_all().sampled != first.sampled


def test_no_two_rows_and_no_two_turns_share_draws(policy) -> None:
    script = Script(policy, sampling(stop=(), temperature=1.3)).play_all()
    texts = [ids for turn in script.turns for ids in turn.values()]
    assert len(set(texts)) == len(texts)


def test_samples_do_not_depend_on_neighbours_that_leave(policy) -> None:
    rows = len(PROMPTS) * 4
    scripts = [Script(policy, sampling()) for _ in range(2)]
    for script, stay in zip(scripts, (range(rows), (1, 4, 10)), strict=True):
        script.play({row: [] for row in range(rows)})
        script.play({row: [20 + row] for row in stay})
        script.play({row: [40 + row] for row in stay if row in (1, 4, 10)})
    for row in (1, 4, 10):
        assert [s[:2] for s in scripts[0].sampled[row]] == [s[:2] for s in scripts[1].sampled[row]]


def test_samples_do_not_depend_on_the_number_of_neighbours(policy) -> None:
    """Row 0's draws of the first turn are the first of the stream, however many rows there are."""
    seen = []
    for prompts, group_size in (([PROMPTS[0]], 1), (PROMPTS, 5)):
        session = HFEngine(policy).open(prompts, group_size, sampling(stop=(), max_tokens=25))
        seen.append(session.turn(dict.fromkeys(range(len(prompts) * group_size), ()))[0])
    assert seen[0].ids == seen[1].ids
    assert seen[0].logprobs == pytest.approx(seen[1].logprobs, abs=2e-5)


def test_rows_may_be_left_out_from_the_first_turn_on(policy) -> None:
    whole, part = (HFEngine(policy).open(PROMPTS, 2, sampling()) for _ in range(2))
    expected = whole.turn(dict.fromkeys(range(6), ()))
    samples = part.turn({1: (), 4: ()})
    assert {row: samples[row].ids for row in samples} == {r: expected[r].ids for r in (1, 4)}


def test_sessions_do_not_disturb_each_other(policy) -> None:
    engine = HFEngine(policy)
    first, other, alone = (engine.open(PROMPTS, 2, sampling()) for _ in range(3))
    contexts = [dict.fromkeys(range(6), ()), {0: [20], 4: [21, 22]}]
    expected = [alone.turn(context) for context in contexts]
    turns = [(first.turn(context), other.turn(context)) for context in contexts]
    assert turns == [(turn, turn) for turn in expected]


def test_a_token_without_probability_is_never_drawn(policy) -> None:
    """At temperature 1e-6 all but the likeliest token underflow to 0; a draw of 0.0 skips them."""
    session = HFEngine(policy).open([PROMPTS[1]], 1, sampling(temperature=1e-6))
    logits = full_logits(policy, PROMPTS[1])[-1]
    for uniform in (0.0, 1 - 2**-53):
        draw = torch.tensor([uniform], dtype=torch.float64)
        (token,), (logprob,) = session._draw(session._hidden, draw)
        assert token == int(logits.argmax()) != 0 and logprob == pytest.approx(0.0, abs=1e-3)


def test_turns_are_told_of_as_they_end(policy) -> None:
    told = {}
    rows = len(PROMPTS) * 4
    session = HFEngine(policy).open(PROMPTS, 4, sampling())

    def ended(row, sample) -> None:
        assert row not in told
        told[row] = sample

    samples = session.turn(dict.fromkeys(range(rows), ()), ended)
    assert told == samples
    lengths = [len(sample.ids) for sample in told.values()]
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1]


def test_t7_adapters_take_part_in_sampling() -> None:
    first = Script(builds.build_policy(), sampling(stop=())).play_all()
    second = Script(builds.build_policy(b_std=0.1), sampling(stop=())).play_all()
    assert first.sampled != second.sampled
