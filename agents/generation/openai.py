"""Any server that speaks OpenAI's chat completions: vLLM, SGLang, llama.cpp, `transformers serve`.

    python eval.py ... --engine.name openai --engine.base_url http://127.0.0.1:8000/v1

It gives text, not token ids: methods that prompt can use it, training cannot.

Stop strings. `Reply.text` ends with the stop string that ended it; most servers take it off. So:

1. A text that holds a stop string is cut after it (`transformers serve` leaves it there, and what
   else its last token held).
2. Else, if the server names what it stopped at, that is appended where it is one of the stop
   strings (vLLM's `stop_reason`, SGLang's `matched_stop`; null or a token id means end of text).
3. Else, if the server does not say (llama.cpp, OpenAI), a closing tag is appended whose opening tag
   is the last one left open. A turn that ended by itself inside a tag is then closed too: the two
   look alike. Other stop strings are left off.

A final assistant message is to be continued. vLLM and SGLang are told so in two fields of their
own, llama.cpp does it anyway. `transformers serve` and OpenAI refuse those fields, which is told
in one line; a server that ignores them and begins a new message instead cannot be told apart.
"""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import openai

from retrieval.errors import InputError
from retrieval.replicas import check_url

from .. import bounds
from ..chat import Ask, ChatModel, ModelError, Reply, cut_after_stop

_CONTINUE = {"continue_final_message": True, "add_generation_prompt": False}
_CLOSING_TAG = re.compile(r"</(\w+)>")
_MESSAGE = 300  # characters of a server's message that are shown


@dataclass(frozen=True, slots=True)
class Config:
    """Where the model is.

    Attributes:
        base_url: Of the API, with its version: what stands before /chat/completions.
        model: Its name there; empty for the only one that the server lists.
        api_key_env: The NAME of the environment variable that holds the key, if one is needed; the
            key itself stands in no configuration.
        concurrency: The most requests under way at once.
        timeout_s: Seconds without an answer after which an attempt is given up.
        retries: Further attempts after time-outs, refused connections, busy or broken servers.
    """

    base_url: str = "http://127.0.0.1:8000/v1"
    model: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    concurrency: int = 16
    timeout_s: float = 120.0
    retries: int = 3

    def __post_init__(self) -> None:
        if urlsplit(self.base_url).username is not None:
            raise InputError(
                "base_url holds a user name: leave it out, the URL is written to files"
            )
        try:
            check_url(self.base_url)
        except InputError as error:
            raise InputError(f"base_url: {error}") from error
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.api_key_env):
            # It may be the key itself: not shown.
            raise InputError("api_key_env is no variable's name: give the name, never the key")
        bounds.at_least(self, 1, "concurrency")
        bounds.at_least(self, 0, "retries")
        bounds.positive(self, "timeout_s")


def connect(config: Config, max_tokens: int) -> ChatModel:
    """The model that a server serves.

    Args:
        config: Where it is.
        max_tokens: The most tokens of a reply.

    Raises:
        InputError: No model is named and the server does not list exactly one, or does not answer.
    """
    return OpenAIChat(config, max_tokens)


class OpenAIChat:
    """A `ChatModel` behind HTTP: temperature 0, seed 0.

    Whether replies repeat is the server's affair: one that batches may round differently.

    Attributes:
        model: Its name on the server.
    """

    def __init__(self, config: Config, max_tokens: int) -> None:
        self._config = config
        self._max_tokens = max_tokens
        self._key = os.environ.get(config.api_key_env, "")
        self._client = openai.OpenAI(
            base_url=config.base_url,
            api_key=self._key or "none",  # the library insists on one; local servers want none
            timeout=config.timeout_s,
            max_retries=config.retries,
        )
        self._seed: dict[str, Any] = {"seed": 0}
        self.model = config.model or self._only_model()

    def complete(self, asks: Sequence[Ask]) -> list[Reply | ModelError]:
        """See `agents.chat.ChatModel`.

        `Reply.tokens` is 0 where the server does not count them.
        """
        pool = ThreadPoolExecutor(self._config.concurrency)
        try:
            return list(pool.map(self._answer, asks))
        finally:
            # After a refusal or Ctrl-C nobody waits for the others.
            pool.shutdown(wait=False, cancel_futures=True)

    def _answer(self, ask: Ask) -> Reply | ModelError:
        seed = self._seed
        try:
            for _ in range(self._config.retries + 1):
                reply = _read(self._request(ask, seed), ask)
                if reply is not None:
                    return reply
        except openai.APIStatusError as error:
            if seed and error.status_code in (400, 422) and "seed" in _said(error):
                self._seed = {}  # some servers know no seed; greedy replies need none
                return self._answer(ask)
            return self._judge(error, ask)
        except openai.APITimeoutError:
            return ModelError(f"{self._where}: no answer within {self._config.timeout_s:g} s")
        except openai.OpenAIError as error:
            return ModelError(f"{self._where}: {_short(str(error))}")
        return ModelError(f"{self._where}: the answer is no chat completion")

    def _request(self, ask: Ask, seed: dict[str, Any]) -> Any:
        continued = ask.messages[-1].role == "assistant"
        messages: Any = [{"role": m.role, "content": m.content} for m in ask.messages]
        try:
            return self._client.chat.completions.create(
                model=self.model,
                messages=messages,
                temperature=0,
                max_tokens=self._max_tokens,
                stop=list(ask.stop) or openai.omit,
                extra_body=_CONTINUE if continued else None,
                **seed,
            )
        except ValueError:  # the body is no JSON
            return None

    def _judge(self, error: openai.APIStatusError, ask: Ask) -> ModelError:
        """The failure of one request.

        Raises:
            InputError: What would befall every request.
        """
        status, said = error.status_code, _said(error)
        if status in (401, 403):
            raise self._no_entry(status)
        if status == 404 or (status == 400 and self._names_model(error)):
            raise InputError(
                f"engine.model: {self._where} knows no model {self.model!r}, or engine.base_url is "
                f"not its API's: {_short(said)}; correct the one or the other"
            )
        if ask.messages[-1].role == "assistant" and any(field in said for field in _CONTINUE):
            raise InputError(
                f"engine.base_url: {self._where} cannot continue an assistant's message; use "
                "--prompt.framing chat, or a server that can (vLLM, SGLang, llama.cpp)"
            )
        return ModelError(f"{self._where}: {_short(said)}")

    def _no_entry(self, status: int) -> InputError:
        """What the server says of a key is not repeated: it may show a part of it."""
        name = self._config.api_key_env
        found = f"refuses the one in ${name}" if self._key else f"${name} is not set"
        return InputError(
            f"engine.api_key_env: {self._where} wants a key (HTTP {status}): {found}; export the "
            "right one"
        )

    def _names_model(self, error: openai.APIStatusError) -> bool:
        """Whether a refusal is about the model's name; one about its context length is not."""
        quoted = rf"""(['"`]){re.escape(self.model)}\1"""
        said = _said(error)
        about = re.search(quoted, said) is not None and "context" not in said
        return error.code == "model_not_found" or about

    @property
    def _where(self) -> str:
        return self._config.base_url

    def _only_model(self) -> str:
        try:
            listed = sorted(model.id for model in self._client.models.list())
            if not all(isinstance(name, str) for name in listed):
                raise TypeError("a model without an id")
        except openai.APIStatusError as error:
            if error.status_code in (401, 403):
                raise self._no_entry(error.status_code) from error
            raise InputError(
                f"engine.model: {self._where} does not list its models "
                f"({_short(_said(error))}); name one"
            ) from error
        except (openai.OpenAIError, ValueError, AttributeError, TypeError) as error:
            raise InputError(
                f"engine.base_url: {self._where} does not answer as a server of models "
                f"({_short(str(error))}); start it, or correct the URL"
            ) from error
        if len(listed) != 1:
            raise InputError(
                f"engine.model: {self._where} lists {len(listed)} models; name one: "
                f"{', '.join(listed) or 'it knows which'}"
            )
        return listed[0]


def _read(answer: Any, ask: Ask) -> Reply | None:
    """The reply in a chat completion; None if the answer is not one.

    The client checks no types: what a server leaves out or writes otherwise is found here.
    """
    try:
        choice = answer.choices[0]
        text, reason = choice.message.content or "", choice.finish_reason
        said = choice.model_extra or {}
        tokens = (answer.usage.completion_tokens or 0) if answer.usage else 0
    except (AttributeError, IndexError, TypeError):
        return None
    if not isinstance(text, str) or not isinstance(tokens, int):
        return None
    whole, stopped = cut_after_stop(text, ask.stop)
    if not stopped and reason == "stop":
        ending = _taken_off(text, ask, said)
        whole, stopped = whole + ending, bool(ending)
    return Reply(whole, tokens, truncated=reason == "length" and not stopped)


def _taken_off(text: str, ask: Ask, said: dict[str, Any]) -> str:
    """The stop string that a server took off the text's end; "" if there was none (rules 2, 3)."""
    for field in ("stop_reason", "matched_stop"):
        if field in said:
            return said[field] if said[field] in ask.stop else ""
    last = ask.messages[-1]
    so_far = last.content + text if last.role == "assistant" else text
    opened: dict[int, str] = {}
    for stop in ask.stop:
        tag = _CLOSING_TAG.fullmatch(stop)
        start = so_far.rfind(f"<{tag[1]}>") if tag else -1
        if start > so_far.rfind(stop):
            opened[start] = stop
    return opened[max(opened)] if opened else ""


def _said(error: openai.APIStatusError) -> str:
    """Status and reason; the client's own text has the reason only in OpenAI's form."""
    body = error.body
    if isinstance(body, dict):
        body = body.get("message") or body.get("detail") or body
    return f"HTTP {error.status_code}: {body or 'no reason given'}"


def _short(text: str) -> str:
    return " ".join(text.split())[:_MESSAGE]
