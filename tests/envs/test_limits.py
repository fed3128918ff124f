import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.actions import LAST_TURN, count_words
from envs.limits import EnvLimits
from envs.search_env import SearchEnv
from envs.types import Question, StopReason
from retrieval.errors import InputError
from retrieval.types import Passage
from tests.envs.engines import Shelf

# Default tokens. Question: Who wrote Dune ? = 4. Search: < search > Dune < / search > = 8.
QUESTION = Question("q", "Who wrote Dune?", ("Frank Herbert",))
SEARCH = "<search>Dune</search>"
# The request to answer: This is the last turn : answer now inside = 9, < answer > and < / answer >
# = 8, and a full stop.
REQUEST = 18
# The block: tags 3 + 4, "Doc 1(Title: Dune)" 7, 40 words "w".
DUNE = Passage("p1", "Dune", " ".join("w" * 40))


def play(context, *turns, **limits):
    env = SearchEnv(
        questions=[QUESTION],
        retriever=Shelf(DUNE),
        reward={"exact_match": 1.0},
        limits=EnvLimits(max_context_tokens=context, reserve_tokens=10, **limits),
    )
    texts = [env.reset()[0]]
    texts += [env.step(turn)[0] for turn in turns]
    return texts, env.episode


def test_the_fixed_request_costs_what_the_derivations_say():
    assert count_words(LAST_TURN) == REQUEST


def test_without_a_context_limit_only_the_observation_is_cut():
    texts, _ = play(None, SEARCH, max_observation_tokens=32)
    # 32 - 14 = 18 words
    assert texts[1] == f"<information>Doc 1(Title: Dune) {' '.join('w' * 18)}</information>"


@pytest.mark.parametrize(
    ("context", "num_words", "last"),
    [
        # Room for the observation: context - 4 - 8 - 18 (request) - 10 (the answer).
        # 94: all 54 tokens fit exactly. Left 28: another search turn (10), its least observation
        # (32), request and answer (28) do not fit in it: the next turn is the last.
        (94, 40, True),
        (93, 39, True),  # one word less
        # 4 + 8 + 54 + 10 + 32 + 18 + 10 = 136 is the least context for one more search.
        (136, 40, False),
        (135, 40, True),
    ],
)
def test_the_observation_is_cut_to_the_context_and_the_last_turn_forced(context, num_words, last):
    texts, _ = play(context, SEARCH)
    block = f"<information>Doc 1(Title: Dune) {' '.join('w' * num_words)}</information>"
    assert texts == ["Who wrote Dune?", block + (f"\n{LAST_TURN}" if last else "")]


def test_a_forced_answer_ends_the_episode_like_any_last_turn():
    _, episode = play(94, SEARCH, SEARCH)
    assert episode.stop_reason is StopReason.TURN_LIMIT
    assert episode.num_searches == 1
    _, episode = play(94, SEARCH, "<answer>Frank Herbert</answer>")
    assert (episode.stop_reason, episode.reward) == (StopReason.ANSWERED, 1.0)


def test_a_turn_that_overran_its_reserve_leaves_a_closed_block_and_the_request():
    texts, episode = play(94, "w " * 90 + SEARCH)
    assert texts[1] == f"<information>No room left for results.</information>\n{LAST_TURN}"
    assert episode.steps[0].hits == ()
    assert episode.num_searches == 1


def test_the_question_is_never_cut_and_asks_at_once_where_nothing_else_fits():
    long = Question("q", "Why? " * 100, ("x",))
    env = SearchEnv(
        questions=[long],
        retriever=Shelf(DUNE),
        reward={"exact_match": 1.0},
        limits=EnvLimits(max_context_tokens=94, reserve_tokens=10),
    )
    assert env.reset()[0] == f"{long.text}\n{LAST_TURN}"
    assert env.step(SEARCH)[3]  # truncated: the first turn was the last


@settings(max_examples=200, deadline=None)
@given(
    context=st.integers(74, 400),
    turns=st.lists(st.sampled_from([SEARCH, "<search>w w</search>", "hm", "w " * 10]), min_size=9),
)
def test_turns_within_their_reserve_never_exceed_the_context(context, turns):
    env = SearchEnv(
        questions=[QUESTION],
        retriever=Shelf(DUNE, Passage("p2", "w", "w. " * 30)),
        reward={"format": 1.0},
        limits=EnvLimits(max_context_tokens=context, reserve_tokens=10, max_turns=9),
    )
    used = count_words(env.reset()[0])
    for turn in turns:
        observation, _, terminated, truncated, _ = env.step(turn)
        used += count_words(turn) + count_words(observation)
        assert used <= context
        if terminated or truncated:
            break
        assert "No room" not in observation


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"top_k": 0}, "top_k is 0; give 1 or more"),
        ({"max_turns": 0}, "max_turns is 0"),
        ({"reserve_tokens": 0}, "reserve_tokens is 0"),
        ({"max_observation_tokens": 31}, "max_observation_tokens is 31; give 32 or more"),
        # Two turns of 128, a request of 18, an observation of 32: 306.
        ({"max_context_tokens": 305}, "max_context_tokens 305 has no room"),
    ],
)
def test_impossible_limits_are_refused(limits, message):
    with pytest.raises(InputError, match=message):
        EnvLimits(**limits)


def test_the_least_possible_context_is_accepted():
    assert not EnvLimits(max_context_tokens=306).next_is_last(0, 0)
