import json
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from envs.registration import make_env
from envs.search_env import SearchEnv
from envs.types import Dataset, Question
from retrieval.errors import InputError
from retrieval.types import Passage
from tests.envs.engines import Shelf

IDS = ["envs:SearchQA-v0", "envs:MedicalQA-v0"]
QUESTION = Question("q", "Who wrote Dune?", ("Frank Herbert",))
DUNE = Passage("p1", "Dune", "Dune is a novel by Frank Herbert.")


@pytest.mark.parametrize("name", IDS)
def test_check_env_passes_without_a_warning(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(name).unwrapped)
        check_env(gymnasium.make(name, render_mode="ansi").unwrapped)
        rules = {"strict_queries": True, "novel_only": True, "excluded_ids": {"atlas-0-0000000"}}
        check_env(gymnasium.make(name, **rules).unwrapped)


@pytest.mark.parametrize("name", IDS)
def test_an_episode_by_id_with_the_passive_checker_on(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(name, max_turns=3, render_mode="ansi")
        observation, info = env.reset(seed=1)
        question = info["question"]
        assert observation == question.prompt
        observation, reward, *_ = env.step(f"<search>{question.supporting_titles[0]}</search>")
        assert observation.startswith("<information>Doc 1(Title: ")
        assert reward == 0
        result = env.step(f"<answer>{question.answers[0]}</answer>")
        assert result[:4] == ("", 1.0, True, False)
        assert env.render().endswith("[answered, total reward 1]")


def test_medical_questions_show_their_options_and_are_graded_by_letter():
    env = gymnasium.make("envs:MedicalQA-v0")
    observation, info = env.reset(seed=0)
    options = info["question"].options
    assert observation.endswith("\n".join(f"{letter}) {options[letter]}" for letter in options))
    everything = ", ".join(options.values())
    assert env.step(f"<answer>{everything}</answer>")[1] == 0


def play(vector_env, seed, steps=12):
    """All results of a vector environment that is sent sampled turns."""
    vector_env.action_space.seed(seed)
    results = [vector_env.reset(seed=seed)]
    results += [vector_env.step(vector_env.action_space.sample()) for _ in range(steps)]
    vector_env.close()
    return results


def plain(result):
    """A result with its arrays as lists, for comparison."""
    if isinstance(result, dict):
        return {key: plain(value) for key, value in result.items()}
    if isinstance(result, np.ndarray):
        return result.tolist()
    return tuple(map(plain, result)) if isinstance(result, tuple) else result


@pytest.mark.parametrize("name", IDS)
def test_vector_environments_agree_and_replay(name):
    makers = [lambda: gymnasium.make(name, max_turns=3)] * 2
    expected = plain(tuple(play(SyncVectorEnv(makers), seed=4)))
    assert any(any(result[2]) for result in expected[1:])  # some answer
    assert any(any(result[3]) for result in expected[1:])  # some turn limit
    assert all(isinstance(text, str) for result in expected for text in result[0])
    assert plain(tuple(play(SyncVectorEnv(makers), seed=4))) == expected
    assert plain(tuple(play(SyncVectorEnv(makers), seed=5))) != expected
    for shared_memory in (True, False):
        workers = AsyncVectorEnv(makers, shared_memory=shared_memory)
        assert plain(tuple(play(workers, seed=4))) == expected


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_make_vec(mode):
    env = gymnasium.make_vec("envs:SearchQA-v0", 2, vectorization_mode=mode, max_turns=2)
    observations, infos = env.reset(seed=0)
    assert list(observations) == [question.prompt for question in infos["question"]]
    _, _, _, truncated, infos = env.step(("hm", "<search>x</search>"))
    assert not truncated.any()
    assert [step.action.text for step in infos["step"]] == ["hm", "<search>x</search>"]
    env.close()


def test_environments_of_one_process_share_the_index():
    first, second = (gymnasium.make("envs:SearchQA-v0").unwrapped for _ in range(2))
    assert first._retriever is second._retriever
    assert first._questions is second._questions


def test_parts_may_be_given_ready_made():
    for dataset in ([QUESTION], Dataset([QUESTION])):
        env = make_env(dataset, Shelf(DUNE), reward={"f1": 1.0}, top_k=1)
        env.reset()
        assert "Frank Herbert" in env.step("<search>dune</search>")[0]
        assert env.step("<answer>Herbert</answer>")[1] == pytest.approx(2 / 3)


def test_a_corpus_file_is_indexed_anew_when_it_changes(tmp_path):
    file = tmp_path / "corpus.jsonl"

    def search(text):
        file.write_text(json.dumps({"id": "1", "title": "Dune", "text": text}) + "\n")
        env = make_env([QUESTION], "bm25s", file)
        assert isinstance(env, SearchEnv)
        env.reset()
        return env.step("<search>Dune</search>")[0]

    assert search("By Herbert.") == "<information>Doc 1(Title: Dune) By Herbert.</information>"
    assert search("By Frank.") == "<information>Doc 1(Title: Dune) By Frank.</information>"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dataset": [QUESTION]}, "no passages of its own; give corpus=FILE"),
        ({"dataset": "wikipedia_hop"}, "unknown name 'wikipedia_hop'; choose one of"),
        ({"retriever": "grep"}, "unknown name 'grep'; choose one of"),
        ({"corpus": "missing.jsonl"}, "missing.jsonl"),
        ({"retriever": Shelf(DUNE), "corpus": "c.jsonl"}, "leave one of them out"),
        ({"max_turn": 3}, r"unknown \['max_turn'\]; limits are top_k, max_turns"),
        ({"max_turns": 0}, "max_turns is 0"),
        ({"reward": {}}, "no term given"),
    ],
)
def test_a_wrong_argument_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        gymnasium.make("envs:SearchQA-v0", **arguments)


def test_importing_the_floor_needs_no_torch():
    code = "import sys, envs.registration, envs.rewards.f1; sys.exit('torch' in sys.modules)"
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
