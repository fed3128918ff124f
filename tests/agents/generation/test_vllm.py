"""The vLLM engine around a stand-in for the server; vLLM itself is in test_vllm_served.py."""

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.engine import DivergedError, EngineError
from agents.generation import vllm
from agents.generation.hf import HFEngine
from agents.generation.vllm import VllmEngine
from agents.policy import SearchPolicy
from agents.train_command import main as train
from agents.vllm_process import ServerOptions, VllmProcess
from agents.vllm_server import VllmServer
from retrieval.errors import InputError
from tests.agents import builds, runs
from tests.agents.generation.endpoint import listening
from tests.agents.generation.sessions import PROMPTS, sampling
from tests.agents.generation.vllm_stand_in import BASE, StandIn

GREEDY = sampling(temperature=0.0)


@pytest.fixture(scope="module")
def listening_server() -> Iterator[StandIn]:
    stand_in = StandIn()
    with listening(stand_in):
        yield stand_in


@pytest.fixture
def server(listening_server: StandIn) -> StandIn:
    listening_server.reset()
    return listening_server


@pytest.fixture(scope="module")
def own() -> SearchPolicy:
    return builds.build_policy()


@pytest.fixture
def policy(own: SearchPolicy) -> SearchPolicy:
    """The policy of a run; the server has another copy of the same base."""
    builds.randomise(own, 0.1)
    return own


def connected(server: StandIn, policy: SearchPolicy, **options) -> VllmEngine:
    return vllm.build(vllm.Config(server=server.url, **options), policy)


def play(engine, options, contexts=({},), group_size: int = 2):
    """The first turn of every row, then one for each further set of contexts."""
    session = engine.open(PROMPTS, group_size, options)
    turns = [session.turn(dict.fromkeys(range(len(PROMPTS) * group_size), ()))]
    return turns + [session.turn(context) for context in contexts if context]


LATER = ({}, {0: [20, 21], 3: [], 4: [22]}, {3: [23, 24, 25], 4: []})


def test_greedy_turns_are_those_of_the_hf_engine(server, policy) -> None:
    """Over several turns, with rows that leave; stop strings and limits end turns alike."""
    got = play(connected(server, policy), GREEDY, LATER)
    expected = play(HFEngine(policy), GREEDY, LATER)
    assert [{r: s.ids for r, s in turn.items()} for turn in got] == [
        {r: s.ids for r, s in turn.items()} for turn in expected
    ]
    assert len({len(s.ids) for turn in got for s in turn.values()}) > 2
    for mine, theirs in zip(got, expected, strict=True):
        for row, sample in mine.items():
            assert sample.logprobs == pytest.approx(theirs[row].logprobs, abs=2e-5)


def test_prompts_go_as_ids_and_nothing_narrows_the_distribution(server, policy) -> None:
    engine = connected(server, policy)
    turns = play(engine, sampling(), ({}, {5: [20, 21]}))
    first, last = server.bodies[0], server.bodies[-1]
    assert sorted(body["prompt"] for body in server.bodies[:6]) == sorted(PROMPTS * 2)
    assert last["prompt"] == [*PROMPTS[2], *turns[0][5].ids, 20, 21]
    assert (first["top_p"], first["top_k"], first["min_p"]) == (1.0, 0, 0.0)
    assert first["repetition_penalty"] == 1.0 and first["temperature"] == sampling().temperature
    assert first["stop_token_ids"] == sorted(policy.end_ids)
    assert {body["model"] for body in server.bodies} == {engine.model} != {BASE}


def test_no_two_draws_share_a_seed_and_the_same_run_draws_again(server, policy) -> None:
    engine = connected(server, policy)
    first = play(engine, sampling(), ({}, {0: [20], 1: [20]}))
    seeds = [body["seed"] for body in server.bodies]
    assert len(set(seeds)) == len(seeds) == 8
    again = play(engine, sampling(), ({}, {0: [20], 1: [20]}))
    assert first == again
    assert first != play(engine, sampling(seed=8), ({}, {0: [20], 1: [20]}))


def test_a_rows_draws_do_not_depend_on_its_neighbours(server, policy) -> None:
    engine = connected(server, policy)
    many = engine.open(PROMPTS, 2, sampling()).turn(dict.fromkeys(range(6), ()))
    few = engine.open(PROMPTS[:1], 2, sampling()).turn({1: ()})
    assert few[1] == many[1]


def test_every_turn_is_told_of_as_it_ends(server, policy) -> None:
    session = connected(server, policy).open(PROMPTS, 2, sampling())
    told = {}
    samples = session.turn(dict.fromkeys(range(6), ()), told.setdefault)
    assert told == samples and list(samples) == list(range(6))


def test_t7_the_adapter_goes_out_when_it_has_changed_and_only_then(server, policy) -> None:
    engine = connected(server, policy)
    play(engine, GREEDY)
    play(engine, sampling())
    (first,) = server.history
    builds.randomise(policy, 0.1, seed=9)  # through .data: no version counter sees it
    changed = play(engine, GREEDY)
    assert len(server.history) == 2 and set(server.loaded) == {engine.model} != {first}
    ids = [sample.ids for sample in play(HFEngine(policy), GREEDY)[0].values()]
    assert [sample.ids for sample in changed[0].values()] == ids
    # Of the adapters only the present one lies on disk.
    assert [path.name for path in Path(server.loaded[engine.model]).parent.iterdir()] == [
        engine.model
    ]


def test_no_name_is_used_twice_even_by_another_run(server, policy, tmp_path) -> None:
    """vLLM finds cached prefixes by name: a server that stays must never see one again."""
    for _ in range(2):
        engine = connected(server, policy, adapter_dir=str(tmp_path / "shared"))
        play(engine, GREEDY)
        folder = Path(server.loaded[engine.model])
        assert tmp_path in folder.parents and folder.exists()
        engine.close()
        assert not folder.exists()
    assert len(set(server.history)) == 2


def test_t7_an_adapter_that_does_not_arrive_is_named(server, policy) -> None:
    server.ignores = True
    with pytest.raises(EngineError, match=r"did not reach the sampler.*base model's"):
        play(connected(server, policy), sampling())


def test_t7_an_adapter_that_is_out_of_date_is_named(server, policy) -> None:
    engine = connected(server, policy)
    play(engine, sampling())
    server.ignores = True
    builds.randomise(policy, 0.1, seed=9)
    with pytest.raises(EngineError, match=r"not the policy's.*an older adapter"):
        play(engine, sampling())


def test_t6_log_probabilities_of_another_temperature_are_named(server, policy) -> None:
    def raw(choice) -> None:
        choice["logprobs"]["token_logprobs"] = [
            value * 1.3 for value in choice["logprobs"]["token_logprobs"]
        ]

    server.change = raw
    with pytest.raises(EngineError, match="logprobs-mode processed_logprobs"):
        play(connected(server, policy), sampling(temperature=1.3))


def test_what_was_sampled_beyond_the_end_of_a_turn_is_left_off(server, policy) -> None:
    """A server that finds a stop string too late, because it joins pieces otherwise."""
    expected = play(connected(server, policy), GREEDY)[0]
    server.change = lambda choice: (
        choice["token_ids"].append(9),
        choice["logprobs"]["token_logprobs"].append(-0.5),
    )
    # The check of delivery reads the turn as it is used.
    assert play(connected(server, policy), GREEDY)[0] == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"finish_reason": "abort"}, "broke a turn off .'abort'"),
        ({"token_ids": []}, "broke a turn off"),
        ({"prompt_token_ids": [1]}, "read other tokens"),
        ({"token_ids": None}, "no token ids or log-probabilities; vLLM 0.11"),
        ({"logprobs": None}, "no token ids or log-probabilities"),
        (
            {"token_ids": [5], "logprobs": {"token_logprobs": [math.nan]}},
            "not numbers: training has diverged",
        ),
    ],
)
def test_an_answer_that_cannot_be_used_is_refused(server, policy, change, message) -> None:
    server.change = lambda choice: choice.update(change)
    with pytest.raises((EngineError, DivergedError), match=message):
        play(connected(server, policy), sampling())


def test_an_episode_that_may_outgrow_the_server_is_refused(server, policy) -> None:
    server.limit = 20
    session = connected(server, policy).open([[5] * 9], 1, sampling(max_tokens=12))
    with pytest.raises(InputError, match=r"the 20 positions that vLLM serves .21 with"):
        session.turn({0: ()})
    # Requests of an earlier test's refusal may still arrive.
    assert [5] * 9 not in [body["prompt"] for body in server.bodies]


def test_rows_and_sessions_end_as_with_the_hf_engine(server, policy) -> None:
    engine = connected(server, policy)
    session = engine.open(PROMPTS, 1, GREEDY)
    session.turn({0: (), 2: ()})
    with pytest.raises(ValueError, match="left the batch"):
        session.turn({1: [20]})
    engine.open(PROMPTS, 1, GREEDY)
    with pytest.raises(ValueError, match="has opened another session"):
        session.turn({0: [20]})


def test_a_server_that_is_gone_is_named(server, policy) -> None:
    engine = connected(server, policy)
    session = engine.open(PROMPTS, 1, GREEDY)
    engine.server._url = "http://127.0.0.1:1"
    with pytest.raises(EngineError, match=r"127.0.0.1:1/v1/completions does not answer"):
        session.turn({0: ()})
    with pytest.raises(InputError, match="does not answer"):
        VllmServer("http://127.0.0.1:1", 5.0, 4)


def test_a_model_the_server_does_not_know_is_shown_in_its_words(server, policy) -> None:
    engine = connected(server, policy)
    session = engine.open(PROMPTS, 1, GREEDY)
    server.loaded.clear()
    with pytest.raises(EngineError, match=r"answered 404: .*no such model"):
        session.turn({0: ()})


def test_a_run_delivers_every_change_and_corrects_for_the_sampler(server, tmp_path, capsys) -> None:
    engine = {"name": "vllm", "server": server.url, "max_tokens": 8}
    file = runs.config_file(tmp_path, engine=engine)
    done = runs.call(capsys, train, "--config", file, "--run.dir", tmp_path / "run")
    assert done.status == 0, done.err
    lines = runs.read_rows(tmp_path / "run" / "metrics.jsonl")
    # The stand-in is the HF engine: what is left of the mismatch is rounding.
    assert [0 < line["sampler_mismatch"] < 1e-5 for line in lines] == [True] * 4
    assert [line["importance_capped"] for line in lines] == [0.0] * 4
    # After the warm start, and after each of four steps that trained something.
    assert len(server.history) == 1 + sum(line["grad_norm"] > 0 for line in lines) > 2


def test_a_sampler_that_fails_ends_a_run_that_can_go_on(server, tmp_path, capsys) -> None:
    engine = {"name": "vllm", "server": server.url, "max_tokens": 8}
    file = runs.config_file(tmp_path, engine=engine, evaluation={"questions": 0})

    def break_off(choice) -> None:
        if len(server.history) == 2:  # in the second step
            choice["finish_reason"] = "abort"

    server.change = break_off
    folder = tmp_path / "run"
    done = runs.call(capsys, train, "--config", file, "--run.dir", folder)
    assert done.status == 1
    assert f"train.py: generation failed: {server.url} broke a turn off" in done.err
    assert f"go on with: python train.py --resume {folder}" in done.err
    assert (folder / "checkpoints" / "step-000001" / "adapter_model.safetensors").exists()
    server.change = lambda choice: None
    assert runs.call(capsys, train, "--resume", folder).status == 0
    assert [line["step"] for line in runs.read_rows(folder / "metrics.jsonl")] == [1, 2, 3, 4]


class TestProcess:
    """Starting and stopping a command that stands for `vllm`."""

    def options(self, folder: Path, script: str) -> ServerOptions:
        command = folder / "vllm"
        command.write_text(f"#!{sys.executable}\n{script}")
        command.chmod(0o755)
        return ServerOptions(str(command), "model", "float32", 12, None, ("--more", "1"))

    def test_it_is_started_with_the_flags_that_keep_the_distribution(
        self, tmp_path, monkeypatch
    ) -> None:
        monkeypatch.setenv("WORLD_SIZE", "2")
        script = (
            "import http.server, os, pathlib, sys\n"
            "pathlib.Path(__file__).with_name('argv').write_text(' '.join(sys.argv[1:]))\n"
            "pathlib.Path(__file__).with_name('pid').write_text(str(os.getpid()))\n"
            "assert os.environ['VLLM_ALLOW_RUNTIME_LORA_UPDATING'] == 'True'\n"
            "assert 'WORLD_SIZE' not in os.environ\n"
            "class Handler(http.server.BaseHTTPRequestHandler):\n"
            "    def do_GET(self):\n"
            "        self.send_response(200), self.end_headers()\n"
            "port = int(sys.argv[sys.argv.index('--port') + 1])\n"
            "http.server.HTTPServer(('127.0.0.1', port), Handler).serve_forever()\n"
        )
        process = VllmProcess(self.options(tmp_path, script), tmp_path / "log", 60.0)
        argv = (tmp_path / "argv").read_text()
        assert argv.startswith("serve model --host 127.0.0.1 --port ")
        assert "--dtype float32 --enable-lora --max-loras 1 --max-lora-rank 16" in argv
        assert "--logprobs-mode processed_logprobs --generation-config vllm --more 1" in argv
        pid = int((tmp_path / "pid").read_text())
        os.kill(pid, 0)
        process.stop()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    def test_one_that_ends_is_told_with_its_complaint(self, tmp_path) -> None:
        script = (
            "import sys\n"
            "print('WARNING this can cause OSError: no')\n"
            "print('(Worker pid=7) ERROR [x.py:1] ValueError: no such model')\n"
            "print('RuntimeError: Worker failed')\n"
            "sys.exit(3)"
        )
        with pytest.raises(InputError, match=r"status 3 \(ValueError: no such model\); its log is"):
            VllmProcess(self.options(tmp_path, script), tmp_path / "log", 60.0)

    def test_one_that_is_never_ready_is_stopped(self, tmp_path) -> None:
        options = self.options(tmp_path, "import time; time.sleep(600)")
        with pytest.raises(InputError, match=r"engine.timeout_s: .* not ready after 0.2 s"):
            VllmProcess(options, tmp_path / "log", 0.2)

    def test_no_command_names_the_remedy(self, policy) -> None:
        with pytest.raises(
            InputError, match=r"no command .*\(requirements-vllm.txt\).*--engine.server"
        ):
            vllm.build(vllm.Config(executable="/nowhere/bin/vllm"), policy)

    def test_a_rank_that_vllm_cannot_serve_is_refused(self, tmp_path) -> None:
        options = ServerOptions(sys.executable, "model", "float32", 513, None, ())
        with pytest.raises(InputError, match=r"model.lora_rank is 513; .* at most rank 512"):
            VllmProcess(options, tmp_path / "log", 1.0)
