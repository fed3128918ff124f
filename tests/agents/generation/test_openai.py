"""The openai engine: what it sends, how it reads, and what becomes of every fault."""

import threading
from collections.abc import Iterator

import pytest

from agents import command_line
from agents.chat import Ask, ModelError, Reply
from agents.config import ENGINE, EngineOptions
from agents.generation.openai import Config, connect
from agents.methods import assistant, system, user
from retrieval.errors import InputError
from tests.agents.generation.endpoint import (
    Endpoint,
    completion,
    failure,
    free_port,
    listening,
    raw,
)

TAGS = ("</search>", "</answer>")


@pytest.fixture(scope="module")
def running() -> Iterator[Endpoint]:
    endpoint = Endpoint(free_port())
    with listening(endpoint):
        yield endpoint


@pytest.fixture
def endpoint(running, monkeypatch) -> Endpoint:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    running.reset()
    return running


def ask(text: str = "Who?", stop: tuple[str, ...] = (), opening: str | None = None) -> Ask:
    said = (user(text),) if opening is None else (user(text), assistant(opening))
    return Ask(said, stop)


def model(endpoint: Endpoint, max_tokens: int = 16, **changes):
    settings = {"base_url": endpoint.url, "model": "m", "retries": 1, "timeout_s": 30.0} | changes
    return connect(Config(**settings), max_tokens)


def one(endpoint: Endpoint, asked: Ask, **changes) -> Reply | ModelError:
    return model(endpoint, **changes).complete([asked])[0]


class TestRequests:
    def test_it_is_a_greedy_chat_completion(self, endpoint) -> None:
        asked = Ask((system("Be brief."), user("Who?"), assistant("Me."), user("Why?")), TAGS)
        one(endpoint, asked, max_tokens=7)
        assert endpoint.bodies == [
            {
                "model": "m",
                "messages": [{"role": m.role, "content": m.content} for m in asked.messages],
                "temperature": 0,
                "seed": 0,
                "max_tokens": 7,
                "stop": list(TAGS),
            }
        ]

    def test_without_stop_strings_none_are_sent(self, endpoint) -> None:
        one(endpoint, ask())
        assert "stop" not in endpoint.bodies[0]

    def test_an_open_assistant_message_is_to_be_continued(self, endpoint) -> None:
        endpoint.answer = lambda body, before: completion(" Orm.")
        assert one(endpoint, ask(opening="It is")) == Reply(" Orm.", 3, False)
        (body,) = endpoint.bodies
        assert body["continue_final_message"] is True and body["add_generation_prompt"] is False
        assert body["messages"][-1] == {"role": "assistant", "content": "It is"}

    @pytest.mark.parametrize(("name", "key"), [("OPENAI_API_KEY", "sk-a"), ("OTHER_KEY", "sk-b")])
    def test_the_key_comes_from_the_named_variable(self, endpoint, monkeypatch, name, key) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-a")
        monkeypatch.setenv(name, key)
        one(endpoint, ask(), api_key_env=name)
        assert endpoint.keys == [f"Bearer {key}"]

    def test_a_server_that_knows_no_seed_is_asked_without(self, endpoint) -> None:
        def answer(body, before):
            return (
                raw('{"detail": ["seed: extra"]}', status=422)
                if "seed" in body
                else completion("yes")
            )

        endpoint.answer = answer
        connected = model(endpoint)
        assert connected.complete([ask("1"), ask("2")]) == [Reply("yes", 3, False)] * 2
        endpoint.bodies.clear()
        assert connected.complete([ask("3")]) == [Reply("yes", 3, False)]
        assert len(endpoint.bodies) == 1

    def test_replies_come_in_order_from_as_many_requests_as_allowed(self, endpoint) -> None:
        endpoint.delay_s = 0.02
        texts = [f"question {i}" for i in range(30)]
        replies = model(endpoint, concurrency=4).complete([ask(text) for text in texts])
        assert [reply.text for reply in replies] == texts
        assert endpoint.busiest == 4

    def test_nothing_asked_nothing_sent(self, endpoint) -> None:
        assert model(endpoint).complete([]) == []
        assert endpoint.bodies == []


def said(text, expected, stop=TAGS, opening=None, truncated=False, reason="stop", **choice):
    return pytest.param(
        completion(text, reason, **choice), ask("?", stop, opening), (expected, truncated)
    )


class TestReading:
    @pytest.mark.parametrize(
        ("answer", "asked", "expected"),
        [
            # The server leaves the stop string there (transformers serve).
            said("<search>a</search>", "<search>a</search>"),
            said("<search>a</search>\n", "<search>a</search>"),
            said("<search>a</search>", "<search>a</search>", reason="length"),
            said("a</answer> b</search>", "a</answer>"),
            said("one\ntwo", "one\n", stop=("\n",)),
            # It takes it off and names it (vLLM, SGLang).
            said("<search>a", "<search>a</search>", stop_reason="</search>"),
            said("<search>a", "<search>a</search>", matched_stop="</search>"),
            said("one", "one\n", stop=("\n",), stop_reason="\n"),
            said("<search>a", "<search>a", stop_reason=None),
            said("<search>a", "<search>a", matched_stop=2),
            # It takes it off and does not say (llama.cpp, OpenAI).
            said("<search>a", "<search>a</search>"),
            said("<think>b</think><answer>a", "<think>b</think><answer>a</answer>"),
            said("<search>a <answer>b", "<search>a <answer>b</answer>"),
            said("a", "a"),
            said("a", "a</search>", opening="I look. <search>"),
            said("c", "c", opening="<search>a</search> b"),
            said("<b>a", "<b>a"),
            said("one", "one", stop=("\n",)),
            # It was cut off.
            said("<search>a", "<search>a", reason="length", truncated=True),
            said("", "", reason="length", truncated=True),
            said(None, "", reason="length", truncated=True),
            said(None, ""),
        ],
    )
    def test_the_stop_string_ends_the_text(self, endpoint, answer, asked, expected) -> None:
        endpoint.answer = lambda body, before: answer
        assert one(endpoint, asked) == Reply(expected[0], 3, expected[1])

    def test_tokens_are_the_servers_count_or_zero(self, endpoint) -> None:
        endpoint.answer = lambda body, before: completion("a", tokens=41)
        assert one(endpoint, ask()) == Reply("a", 41, False)
        endpoint.answer = lambda body, before: completion("a", tokens=None)
        assert one(endpoint, ask()) == Reply("a", 0, False)
        usage = '"usage": {"prompt_tokens": 9}'
        body = (
            f'{{"choices": [{{"message": {{"content": "a"}}, "finish_reason": "stop"}}], {usage}}}'
        )
        endpoint.answer = lambda _, before: raw(body)
        assert one(endpoint, ask()) == Reply("a", 0, False)


VLLM_TOO_LONG = (
    "This model's maximum context length is 64 tokens. However, you requested 99 tokens in the "
    "messages, Please reduce the length of the messages."
)
FAULTS = {
    "500": (failure(500), "500"),
    "503": (failure(503, "Loading model"), "Loading model"),
    "429": (failure(429, "slow down"), "slow down"),
    "no JSON": (raw("{"), "no chat completion"),
    "a page": (raw("<html>hello</html>", "text/html"), "no chat completion"),
    "a list": (raw("[1]"), "no chat completion"),
    "null": (raw("null"), "no chat completion"),
    "no choices": (raw('{"choices": []}'), "no chat completion"),
    "empty": (raw("{}"), "no chat completion"),
    "no message": (raw('{"choices": [{"finish_reason": "stop"}]}'), "no chat completion"),
    "content of a wrong type": (completion([{"type": "text"}]), "no chat completion"),
    "too long (vLLM)": (failure(400, VLLM_TOO_LONG), "maximum context length is 64 tokens"),
    "too long (llama.cpp)": (
        failure(400, "request exceeds the available context size of model 'm'", n_ctx=64),
        "exceeds the available context size",
    ),
    "another refusal": (failure(400, "roles must alternate"), "roles must alternate"),
}


class TestFaults:
    @pytest.mark.parametrize(("fault", "message"), FAULTS.values(), ids=FAULTS)
    def test_one_costs_its_request_only(self, endpoint, fault, message) -> None:
        def answer(body, before):
            return fault if body["messages"][-1]["content"] == "bad" else completion("good")

        endpoint.answer = answer
        first, failed, last = model(endpoint).complete([ask("1"), ask("bad"), ask("2")])
        assert first == last == Reply("good", 3, False)
        assert isinstance(failed, ModelError)
        assert message in str(failed) and str(failed).startswith(endpoint.url)
        assert "\n" not in str(failed)

    @pytest.mark.parametrize("name", ["500", "503", "429", "no JSON", "a page", "no choices"])
    def test_one_that_passes_is_not_noticed(self, endpoint, name) -> None:
        fault, _ = FAULTS[name]
        endpoint.answer = lambda body, before: fault if before < 2 else completion("good")
        assert one(endpoint, ask(), retries=2) == Reply("good", 3, False)
        assert len(endpoint.bodies) == 3

    def test_a_time_out_is_told_with_its_seconds(self, endpoint) -> None:
        endpoint.delay_s = 1.0
        failed = one(endpoint, ask(), timeout_s=0.2, retries=0)
        assert isinstance(failed, ModelError) and "no answer within 0.2 s" in str(failed)

    def test_nobody_listens(self) -> None:
        closed = Endpoint(free_port())
        failed = one(closed, ask(), retries=0)
        assert isinstance(failed, ModelError) and closed.url in str(failed)

    def test_a_server_that_starts_slowly_is_waited_for(self) -> None:
        late = Endpoint(free_port())
        over = threading.Event()

        def start() -> None:
            with listening(late):
                over.wait()

        timer = threading.Timer(0.3, start)
        timer.start()
        try:
            assert one(late, ask(), retries=6) == Reply("Who?", 3, False)
        finally:
            over.set()
            timer.join()


REFUSALS = {
    "no key": (
        failure(401, "missing"),
        r"^engine\.api_key_env: .*\(HTTP 401\): \$OPENAI_API_KEY is",
    ),
    "forbidden": (failure(403, "missing"), r"^engine\.api_key_env: .*\(HTTP 403\)"),
    "no such model": (
        failure(404, "The model `m` does not exist.", code="model_not_found"),
        r"^engine\.model: .* knows no model 'm', .*; correct the one or the other$",
    ),
    "no such path": (raw("Not Found", "text/plain", 404), r"engine\.base_url is not its API's"),
    "another model (transformers serve)": (
        raw("{\"detail\": \"Server is pinned to 'a'; requested 'm'.\"}", status=400),
        r"^engine\.model: .* knows no model 'm'",
    ),
}


class TestRefusals:
    @pytest.mark.parametrize(("fault", "message"), REFUSALS.values(), ids=REFUSALS)
    def test_what_no_repetition_mends_is_told_in_one_line(self, endpoint, fault, message) -> None:
        endpoint.answer = lambda body, before: fault
        with pytest.raises(InputError, match=message) as caught:
            one(endpoint, ask())
        assert endpoint.url in str(caught.value) and "\n" not in str(caught.value)
        assert len(endpoint.bodies) == 1

    def test_a_refused_key_is_not_shown(self, endpoint, monkeypatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        endpoint.answer = lambda body, before: failure(401, "Incorrect API key: sk-secret")
        with pytest.raises(InputError, match=r"refuses the one in \$OPENAI_API_KEY") as caught:
            one(endpoint, ask())
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize(
        "fault",
        [
            # As transformers serve says it: not in OpenAI's form.
            raw('{"detail": "Unexpected fields: {\'continue_final_message\'}"}', status=422),
            failure(400, "Unrecognized request argument supplied: add_generation_prompt"),
        ],
    )
    def test_a_server_that_cannot_continue_says_how_to_do_without(self, endpoint, fault) -> None:
        endpoint.answer = lambda body, before: fault
        with pytest.raises(InputError, match=r"cannot continue .* use --prompt\.framing chat"):
            one(endpoint, ask(opening="I"))


class TestModels:
    def test_the_only_one_is_taken(self, endpoint) -> None:
        endpoint.models = ["owner/only"]
        connected = model(endpoint, model="")
        connected.complete([ask()])
        assert connected.model == endpoint.bodies[0]["model"] == "owner/only"

    @pytest.mark.parametrize(
        ("listed", "message"),
        [
            (["b", "a"], r"^engine\.model: .* lists 2 models; name one: a, b$"),
            ([], r"^engine\.model: .* lists 0 models"),
            (failure(401), r"^engine\.api_key_env: .*HTTP 401"),
            (failure(404), r"^engine\.model: .* does not list its models \(.*404.*\); name one"),
            (raw("{"), r"^engine\.base_url: .* does not answer as a server of models"),
            (raw("hello", "text/plain"), r"^engine\.base_url: .* does not answer as"),
            (raw('{"data": [{}]}'), r"^engine\.base_url: .* does not answer as"),
        ],
    )
    def test_otherwise_one_must_be_named(self, endpoint, listed, message) -> None:
        endpoint.models = listed
        with pytest.raises(InputError, match=message):
            model(endpoint, model="")

    def test_a_server_that_is_not_there_cannot_be_asked(self) -> None:
        closed = Endpoint(free_port())
        with pytest.raises(
            InputError, match=r"^engine\.base_url: .*; start it, or correct the URL"
        ):
            model(closed, model="", retries=0)


class TestConfig:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"base_url": "localhost:8000"}, r"^base_url: 'localhost:8000' is no server's URL"),
            ({"base_url": "http://me:secret@host/v1"}, r"^base_url holds a user name"),
            ({"api_key_env": "sk-proj-secret"}, r"^api_key_env is no variable's name"),
            ({"api_key_env": ""}, r"^api_key_env is no variable's name"),
            ({"concurrency": 0}, r"^concurrency is 0; give at least 1"),
            ({"retries": -1}, r"^retries is -1; give at least 0"),
            ({"timeout_s": 0.0}, r"^timeout_s is 0\.0; give more than 0"),
        ],
    )
    def test_bad_settings_are_refused_and_no_secret_shown(self, changes, message) -> None:
        with pytest.raises(InputError, match=message) as caught:
            Config(**changes)
        assert "secret" not in str(caught.value)

    def test_a_configuration_that_is_written_holds_no_key(self, monkeypatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        plugin = command_line.Plugin(ENGINE.package, "openai", Config(), EngineOptions())
        written = command_line.to_yaml({"engine": plugin})
        assert "api_key_env: OPENAI_API_KEY" in written and "secret" not in written
