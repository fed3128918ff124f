"""Where the engine ends a turn, and what it refuses."""

import copy

import pytest

from agents.generation import hf
from agents.generation.hf import HFEngine
from retrieval.errors import InputError
from tests.agents import builds
from tests.agents.generation.sessions import STOP, Script, sampling


class TestEndOfTurn:
    def test_a_turn_ends_with_the_token_that_completes_a_stop(self, policy) -> None:
        script = Script(policy, sampling(max_tokens=30)).play_all()
        reasons = set()
        for turn in script.turns:
            for ids in turn.values():
                pieces = [policy.piece(token) for token in ids]
                assert not any(stop in "".join(pieces[:-1]) for stop in STOP)
                assert not policy.end_ids & set(ids[:-1])
                stopped = any(stop in "".join(pieces) for stop in STOP)
                ended = ids[-1] in policy.end_ids
                assert stopped or ended or len(ids) == 30
                reasons.add((stopped, ended))
        assert (True, False) in reasons

    def test_a_stop_may_be_spread_over_tokens(self, policy, monkeypatch) -> None:
        """'</search>' in single characters, after a '<' that begins nothing."""
        ids = [policy.encode(c)[0] for c in "a<</search>b"]
        turn = hf._TurnSoFar(policy, builds.sampling(max_tokens=99))
        for index, token in enumerate(ids[:-1]):
            assert not turn.ended, index
            turn.add(token, -1.0)
        assert turn.ended and turn.ids == ids[:-1]

    def test_end_of_text_ends_a_turn(self, policy) -> None:
        turn = hf._TurnSoFar(policy, builds.sampling(max_tokens=99))
        turn.add(5, -1.0)
        turn.add(policy.tokenizer.eos_token_id, -1.0)
        assert turn.ended

    def test_without_stops_a_turn_has_max_tokens(self, policy) -> None:
        script = Script(policy, sampling(stop=(), max_tokens=3), group_size=1)
        script.play({0: [], 1: [], 2: []})
        assert {len(ids) for ids in script.turns[0].values()} == {3}


class TestErrors:
    @pytest.mark.parametrize(("prompt", "turn"), [(30, 5), (15, 10)])
    def test_an_episode_that_outgrows_the_model_is_refused(self, policy, prompt, turn) -> None:
        """Reading and decoding alike: 30 > 20 positions, and 15 + 10 > 20."""
        short = copy.copy(policy)
        short.max_positions = 20
        with pytest.raises(InputError, match="outgrew the model's 20 positions"):
            session = HFEngine(short).open(
                [[5] * prompt], 1, sampling(stop=(), max_tokens=turn, temperature=0.0)
            )
            session.turn({0: ()})

    def test_up_to_the_last_position_all_is_well(self, policy) -> None:
        short = copy.copy(policy)
        short.max_positions = 20
        options = sampling(stop=(), max_tokens=5, temperature=0.0)
        # 15 + 5 = 20 tokens; the last one is sampled but not read.
        session = HFEngine(short).open([[5] * 15], 1, options)
        assert len(session.turn({0: ()})[0].ids) == 5

    def test_a_row_that_has_left_cannot_come_back(self, policy) -> None:
        script = Script(policy, sampling(), group_size=1)
        script.play({0: [], 1: [], 2: []})
        script.play({0: [5], 2: [6]})
        with pytest.raises(ValueError, match="had left"):
            script.session.turn({0: [5], 1: [6]})

    def test_an_empty_prompt_is_an_error(self, policy) -> None:
        with pytest.raises(ValueError, match="nothing to read"):
            HFEngine(policy).open([[5], []], 1, sampling())
