"""Rollouts through the real environment and search engine; T11 and T19 of the lessons."""

import threading

import pytest

from agents.generation.hf import HFEngine
from agents.policy import SearchPolicy
from agents.rollout import demonstrate, failed, usable
from envs.actions import LAST_TURN, REMINDER
from envs.types import Question, StopReason
from retrieval.cache import CachedRetriever
from retrieval.corpus import Corpus
from retrieval.errors import RetrievalError
from retrieval.isolate import Isolated
from retrieval.retrievers import bm25s
from retrieval.types import Hit
from tests.agents import builds

QUESTIONS = builds.world().questions
WRONG = "<answer>nobody</answer>"
TITLE = QUESTIONS[0].supporting_titles[0]
TITLES = [passage.title for passage in builds.world().passages]


class Flaky:
    """BM25 that breaks down on some queries, alone or in a batch, as a server would."""

    def __init__(self) -> None:
        self.engine = builds.search_engine()
        self.calls: list[list[str]] = []

    def search(self, queries: list[str], k: int) -> list[list[Hit]]:
        self.calls.append(list(queries))
        if any("poison" in query for query in queries):
            raise RetrievalError("http://localhost:8000: 500")
        return self.engine.search(queries, k)


def script(policy: SearchPolicy, *rows: list[str]) -> builds.ScriptedEngine:
    """Row r says rows[r] turn by turn."""
    return builds.ScriptedEngine(lambda row, turn: policy.encode(rows[row][turn]))


def test_the_groups_of_a_question_stand_side_by_side(policy) -> None:
    """T19: one id per prompt draw, also where a question is drawn twice."""
    engine = builds.ScriptedEngine(lambda row, turn: policy.encode(WRONG))
    questions = [QUESTIONS[0], QUESTIONS[1], QUESTIONS[0]]
    played = builds.build_rollout(engine, policy).play(questions, 2, builds.sampling(), 40)
    assert [t.group_id for t in played] == [40, 40, 41, 41, 42, 42]
    assert [t.episode.question for t in played] == [q for q in questions for _ in range(2)]


@pytest.mark.parametrize(("max_episodes", "parts"), [(64, [12]), (7, [6, 6]), (3, [3] * 4)])
def test_t19_parts_give_every_question_its_whole_group(policy, max_episodes, parts) -> None:
    engine = builds.ScriptedEngine(lambda row, turn: policy.encode(WRONG))
    rollout = builds.build_rollout(engine, policy, max_episodes=max_episodes)
    played = rollout.play(QUESTIONS[:4], 3, builds.sampling(), 10)
    assert [len(session.read) for session in engine.sessions] == parts
    assert [t.group_id for t in played] == [10] * 3 + [11] * 3 + [12] * 3 + [13] * 3
    assert [t.episode.question for t in played] == [q for q in QUESTIONS[:4] for _ in range(3)]


def test_a_group_is_played_together_or_not_at_all(policy) -> None:
    rollout = builds.build_rollout(HFEngine(policy), policy, max_episodes=2)
    with pytest.raises(ValueError, match="a group of 3 is more than 2 episodes"):
        rollout.play(builds.world().questions[:1], 3, builds.sampling())


def test_the_parts_of_a_call_do_not_draw_alike(policy) -> None:
    rollout = builds.build_rollout(HFEngine(policy), policy, max_episodes=2, max_turns=2)
    played = rollout.play([QUESTIONS[0]] * 6, 2, builds.sampling(max_tokens=8))
    assert len({tuple(turn.action_ids for turn in t.turns) for t in played}) == 12


def test_t19_a_groups_samples_depend_on_no_other_group(policy) -> None:
    """The same episodes at once, in parts, and in two calls, as two processes make them."""

    def play(first: int, end: int, max_episodes: int = 64) -> list[tuple]:
        rollout = builds.build_rollout(HFEngine(policy), policy, max_episodes=max_episodes)
        played = rollout.play(QUESTIONS[first:end], 3, builds.sampling(), first)
        return [(t.group_id, [turn.action_ids for turn in t.turns]) for t in played]

    at_once = play(0, 4)
    assert play(0, 4, max_episodes=3) == play(0, 4, max_episodes=7) == at_once
    assert play(0, 1) + play(1, 4) == at_once
    assert len({str(turns) for _, turns in at_once}) == 12


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_same_seed_plays_the_same_episodes(policy, temperature) -> None:
    def play(seed: int):
        rollout = builds.build_rollout(HFEngine(policy), policy, max_episodes=8)
        return rollout.play(QUESTIONS[:4], 3, builds.sampling(seed=seed, temperature=temperature))

    first = play(5)
    assert play(5) == first
    assert (play(6) == first) == (temperature == 0)


def test_an_episode_is_the_environments_record(policy) -> None:
    question = QUESTIONS[0]
    turns = [f"<search>{TITLE}</search>", "hm", f"<answer>{question.answers[0]}</answer>"]
    (played,) = builds.build_rollout(script(policy, turns), policy).play(
        [question], 1, builds.sampling()
    )
    texts = [step.action.text for step in played.episode.steps]
    assert texts == turns and played.episode.stop_reason is StopReason.ANSWERED
    first, second, third = played.episode.steps
    assert first.hits[0].passage.title == TITLE
    # max_turns 3: the observation before the last turn asks for the answer.
    assert second.observation.endswith(LAST_TURN) and LAST_TURN not in first.observation
    assert (third.observation, third.reward) == ("", 1.0)
    assert [turn.step for turn in played.turns] == [first, second, third]
    assert (played.reward, played.stratum) == (1.0, 1)
    assert played.num_action_tokens == sum(len(policy.encode(turn)) for turn in turns)


def test_with_one_turn_the_prompt_asks_for_the_answer(policy) -> None:
    """The environment says so in its first observation; it must reach the agent."""
    engine = script(policy, [WRONG])
    rollout = builds.build_rollout(engine, policy, max_turns=1)
    (played,) = rollout.play(QUESTIONS[:1], 1, builds.sampling())
    prompt = policy.tokenizer.decode(played.turns[0].prompt_ids)
    assert f"{QUESTIONS[0].prompt}\n{LAST_TURN}<|im_end|>" in prompt


def test_t11_a_failed_search_ends_its_episode_and_no_other(policy) -> None:
    flaky = Flaky()
    rows = [
        ["<search>a</search>", WRONG],
        ["<search>poison</search>"],
        ["hm", "<search>poison</search>"],
        [f"<search>{TITLE}</search>", "<search>a</search>", WRONG],
        # A search at the last turn is not executed: its failing must harm nobody.
        ["hm", "hm", "<search>poison</search>"],
    ]
    rollout = builds.build_rollout(
        script(policy, *rows), policy, retriever=CachedRetriever(flaky), max_turns=3
    )
    progress: list[int] = []
    played = rollout.play(QUESTIONS[:5], 1, builds.sampling(), progress=progress.append)
    reasons = [str(t.episode.stop_reason) for t in played]
    assert reasons == [
        "answered",
        "retrieval_error",
        "retrieval_error",
        "answered",
        "turn_limit",
    ]
    assert [len(t.turns) for t in played] == [2, 1, 2, 3, 3]
    assert [t.group_id for t in usable(played)] == [0, 3, 4]
    assert [failed(t.episode) for t in played] == [False, True, True, False, False]
    # After the failed batch the healthy episodes have asked again, alone, and been answered.
    assert played[3].stratum == 2
    assert played[3].episode.steps[0].hits[0].passage.title == TITLE
    # One ends in the first turn, two in the second, the others in the third.
    assert progress == [1, 2, 2]


def test_the_queries_of_a_turn_are_one_batch_search(policy) -> None:
    flaky = Flaky()
    rows = [
        ["<search>a</search>", WRONG],
        ["<search>b</search>", "<search>c</search>", WRONG],
        [WRONG],
        ["<search>a</search>", "<search>b</search>", WRONG],
    ]
    rollout = builds.build_rollout(
        script(policy, *rows), policy, retriever=CachedRetriever(flaky), max_turns=3
    )
    rollout.play(QUESTIONS[:4], 1, builds.sampling())
    # Turn 1 asks a, b and a again; turn 2 only what it does not remember.
    assert flaky.calls == [["a", "b"], ["c"]]


class Elsewhere(Flaky):
    """An engine of another process, as far as the rollout can tell."""

    elsewhere = True

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def search(self, queries, k):
        self.asked.set()
        return super().search(queries, k)


def test_an_engine_elsewhere_searches_while_other_turns_are_sampled(policy) -> None:
    engine = Elsewhere()

    def write(row, turn):
        # The second row's turn takes as long as the search of the first one's.
        assert row == 0 or engine.asked.wait(60)
        return policy.encode("<search>a</search>" if turn == 0 else WRONG)

    rollout = builds.build_rollout(
        builds.ScriptedEngine(write, tells=True),
        policy,
        retriever=CachedRetriever(engine),
        max_turns=2,
    )
    rollout.play(QUESTIONS[:2], 1, builds.sampling())
    assert engine.calls == [["a"]]


def test_where_the_search_runs_changes_no_episode(policy) -> None:
    def write(row, turn):
        title = TITLES[(3 * row + turn) % len(TITLES)]
        return policy.encode(f"<search>{title}</search>" if turn < 2 else WRONG)

    def play(retriever):
        engine = builds.ScriptedEngine(write, tells=True)
        rollout = builds.build_rollout(engine, policy, retriever=retriever, max_turns=3)
        return rollout.play(QUESTIONS[:4], 3, builds.sampling())

    corpus = Corpus.of(builds.world().passages)
    isolated = CachedRetriever(Isolated("bm25s", bm25s.Config(), corpus))
    assert isolated.elsewhere and not builds.search_engine().elsewhere
    assert play(isolated) == play(builds.search_engine())


def test_the_environment_counts_in_the_policys_tokens(policy) -> None:
    """An observation limit of 40 holds in tokens of the model, borders and request aside."""
    engine = script(policy, [f"<search>{TITLE}</search>"] * 4)
    rollout = builds.build_rollout(engine, policy, max_observation_tokens=40, max_turns=4)
    (played,) = rollout.play(QUESTIONS[:1], 1, builds.sampling())
    block = played.turns[0].step.observation
    assert block.endswith("</information>")
    # Cut at a word: a few tokens below the limit, not more than the longest word.
    assert 30 <= len(policy.encode(block)) <= 40
    assert len(played.turns[1].prompt_ids) == len(policy.encode(block)) + 2


class TestDemonstrate:
    def test_an_experts_turns_are_played_and_encoded(self, policy) -> None:
        rollout = builds.build_rollout(script(policy), policy, max_turns=5)
        question = QUESTIONS[0]
        texts = builds.world().demonstrate(question, False)
        shown = demonstrate(question, texts, rollout.make_env(), rollout.framing, 9)
        assert shown.reward == 1.0 and shown.group_id == 9
        assert [policy.decode(turn.action_ids) for turn in shown.turns] == list(texts)
        assert all(set(turn.logprobs) == {0.0} for turn in shown.turns)
        prompt, *observations = (turn.prompt_ids for turn in shown.turns)
        assert prompt == rollout.framing.prompt_ids(question)
        for turn, ids in zip(shown.turns, observations, strict=False):
            assert policy.decode(ids) == f"\n{turn.step.observation}\n"

    def test_turns_after_the_end_are_left_out(self, policy) -> None:
        rollout = builds.build_rollout(script(policy), policy, max_turns=2)
        texts = ["hm", WRONG, "<search>never</search>"]
        shown = demonstrate(QUESTIONS[0], texts, rollout.make_env(), rollout.framing)
        assert [policy.decode(turn.action_ids) for turn in shown.turns] == ["hm", WRONG]
        assert policy.decode(shown.turns[1].prompt_ids).startswith(f"\n{REMINDER[:15]}")

    def test_a_question_with_options(self, policy) -> None:
        rollout = builds.build_rollout(script(policy), policy)
        question = Question("c", "Which?", ("B", "Vell"), {"A": "Orm", "B": "Vell"})
        shown = demonstrate(question, [WRONG], rollout.make_env(), rollout.framing)
        assert "Which?\nA) Orm\nB) Vell" in policy.decode(shown.turns[0].prompt_ids)


def test_the_engine_is_real() -> None:
    """The fixture's BM25 is the one that is shipped."""
    assert isinstance(builds.search_engine()._retriever, bm25s.BM25s)
