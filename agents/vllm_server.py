"""What is asked of a vLLM server: adapters by name, and completions from token ids to token ids."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from retrieval.errors import InputError

from .engine import DivergedError, EngineError

_MESSAGE = 300  # characters of a server's message that are shown
# Nothing that would make another distribution of the policy's: said in full, for a server may have
# been started with defaults of its own.
_PLAIN = {
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "logprobs": 0,  # of the sampled token alone
    "return_token_ids": True,
    # Stop strings are looked for in all that was sampled, special tokens too.
    "include_stop_str_in_output": True,
    "skip_special_tokens": False,
    "spaces_between_special_tokens": False,
}


@dataclass(frozen=True, slots=True)
class Completion:
    """What was sampled after a prompt.

    Attributes:
        ids: Token ids, the one that ended it included.
        logprobs: Of each, nats.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]


class VllmServer:
    """A `vllm serve`, wherever it runs.

    Attributes:
        base_model: The name under which it serves the model without an adapter.
        max_model_len: The longest text in tokens, prompt and completion together.
    """

    def __init__(self, url: str, timeout_s: float, concurrency: int) -> None:
        """Ask it what it serves.

        Args:
            url: Such as "http://10.0.0.7:8000".
            timeout_s: Of one request.
            concurrency: The most requests under way at once.

        Raises:
            InputError: It does not answer, or is no vLLM server.
        """
        self._url = url.rstrip("/")
        self._concurrency = concurrency
        timeout = urllib3.Timeout(connect=10.0, read=timeout_s)
        # No retries: a completion is drawn once, and a server that broke is a reason to stop.
        self._pool = urllib3.PoolManager(maxsize=concurrency, retries=False, timeout=timeout)
        try:
            models = self._ask("GET", "/v1/models")
            (base,) = [card for card in models["data"] if card.get("parent") is None]
            self.base_model: str = base["id"]
            self.max_model_len: int = base["max_model_len"]
        except EngineError as error:
            raise InputError(f"engine.server: {error}") from error
        except (LookupError, TypeError, ValueError) as error:
            raise InputError(
                f"engine.server: {self._url} serves no single base model as vLLM does; give the "
                "URL of a `vllm serve`"
            ) from error

    def load_adapter(self, name: str, folder: Path) -> None:
        """Let it read a PEFT folder and serve it under a name.

        Raises:
            EngineError: It cannot.
        """
        body = {"lora_name": name, "lora_path": str(folder)}
        try:
            self._ask("POST", "/v1/load_lora_adapter", body)
        except EngineError as error:
            raise EngineError(
                f"{error}; a server of your own needs --enable-lora, --max-lora-rank, "
                "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True and to see the folder engine.adapter_dir"
            ) from error

    def unload_adapter(self, name: str) -> None:
        """Let it forget an adapter."""
        self._ask("POST", "/v1/unload_lora_adapter", {"lora_name": name})

    def complete(
        self,
        requests: Sequence[Mapping[str, Any]],
        ended: Callable[[int, Completion], object] = lambda place, completion: None,
    ) -> list[Completion]:
        """Sample after prompts, all at once.

        Args:
            requests: The fields `model`, `prompt` (token ids), `max_tokens`, `temperature`, `seed`,
                `stop` and `stop_token_ids` of a completion.
            ended: Told of each, in the order in which they end: which request, what came of it.

        Raises:
            DivergedError: Log-probabilities that are not numbers.
            EngineError: The server fails, refuses, or read or answered other than it was asked.
        """
        if not requests:
            return []
        # One request per row: the seed of a request holds for all its prompts.
        threads = ThreadPoolExecutor(min(len(requests), self._concurrency))
        try:
            futures = [threads.submit(self._complete, request) for request in requests]
            places = {future: place for place, future in enumerate(futures)}
            for future in as_completed(futures):
                ended(places[future], future.result())
            return [future.result() for future in futures]
        finally:
            # After a failure or Ctrl-C what has not been asked yet is not asked any more.
            threads.shutdown(wait=False, cancel_futures=True)

    def _complete(self, request: Mapping[str, Any]) -> Completion:
        reply = self._ask("POST", "/v1/completions", {**_PLAIN, **request})
        try:
            (choice,) = reply["choices"]
            ids, read = tuple(choice["token_ids"]), choice["prompt_token_ids"]
            logprobs = tuple(choice["logprobs"]["token_logprobs"])
            reason = choice["finish_reason"]
        except (LookupError, TypeError, ValueError) as error:
            raise EngineError(
                f"{self._url} returns no token ids or log-probabilities; vLLM "
                "0.11 or newer is needed"
            ) from error
        if read != list(request["prompt"]):
            raise EngineError(f"{self._url} read other tokens than it was given")
        if reason not in ("stop", "length") or not ids or len(ids) != len(logprobs):
            raise EngineError(
                f"{self._url} broke a turn off ({reason!r}, {len(ids)} tokens, "
                f"{len(logprobs)} log-probabilities); see its log"
            )
        if not all(map(math.isfinite, logprobs)):
            raise DivergedError()
        return Completion(ids, logprobs)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        url = f"{self._url}{path}"
        try:
            # A server may accept a connection, and then be gone.
            answer = (
                self._pool.request(method, url, json=body)
                if body
                else self._pool.request(method, url)
            )
        except urllib3.exceptions.HTTPError as error:
            raise EngineError(f"{url} does not answer ({error}); see the server's log") from error
        text = answer.data.decode("utf-8", "replace")
        if answer.status != 200:
            message = " ".join(text.split())[:_MESSAGE]
            raise EngineError(f"{url} answered {answer.status}: {message}")
        try:
            return json.loads(text)
        except ValueError:
            return text
