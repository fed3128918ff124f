"""A server in this process that speaks vLLM's protocol over real HTTP, on a policy of its own.

It reads the adapters it is told of from their folders with peft, as vLLM does, and samples with
the HF engine: what the engine does around vLLM runs in every test run. It can also misbehave.
`test_vllm_served.py` shows the same with vLLM itself.
"""

import json
import threading
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from peft import set_peft_model_state_dict
from safetensors.torch import load_file

from agents.engine import Sampling
from agents.generation.hf import HFEngine
from tests.agents import builds
from tests.agents.generation.endpoint import free_port

BASE = "base"


class StandIn:
    """What the server does, and what it was asked.

    Attributes:
        port: Where it listens.
        limit: The longest text it takes.
        loaded: Adapter name -> folder.
        history: Every name ever loaded.
        bodies: Of all completions.
        ignores: Adapters that are loaded have no effect.
        change: Alters the one choice of an answer, on its way out.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self._policy = builds.build_policy()
        self._engine = HFEngine(self._policy)
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """As just started: the base model alone."""
        self.limit = 2048
        self.loaded: dict[str, str] = {}
        self.history: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.ignores = False
        self.change: Any = lambda choice: None
        for name, parameter in self._policy.model.named_parameters():
            if "lora_B" in name:
                parameter.data.zero_()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.get("/health")
        def health() -> Response:
            return Response()

        @app.get("/v1/models")
        def models() -> Response:
            cards = [{"id": BASE, "parent": None, "max_model_len": self.limit}]
            cards += [{"id": name, "parent": BASE} for name in self.loaded]
            return JSONResponse({"object": "list", "data": cards})

        @app.post("/v1/load_lora_adapter")
        async def load(request: Request) -> Response:
            body = await request.json()
            if body["lora_name"] in self.loaded:
                return JSONResponse({"error": {"message": "already loaded"}}, 400)
            if not self.ignores:
                tensors = load_file(f"{body['lora_path']}/adapter_model.safetensors")
                set_peft_model_state_dict(self._policy.model, tensors)
            self.loaded[body["lora_name"]] = body["lora_path"]
            self.history.append(body["lora_name"])
            return PlainTextResponse("Success")

        @app.post("/v1/unload_lora_adapter")
        async def unload(request: Request) -> Response:
            del self.loaded[(await request.json())["lora_name"]]
            return PlainTextResponse("Success")

        @app.post("/v1/completions")
        async def completions(request: Request) -> Response:
            body = await request.json()
            self.bodies.append(body)
            if body["model"] not in (BASE, *self.loaded):
                return JSONResponse({"error": {"message": "no such model"}}, 404)
            choice = self._choice(body)
            self.change(choice)
            # Not JSONResponse: like some servers, it writes the infinity that JSON does not know.
            return Response(json.dumps({"choices": [choice]}), media_type="application/json")

        return app

    def _choice(self, body: dict[str, Any]) -> dict[str, Any]:
        sampling = Sampling(
            body["max_tokens"], body["temperature"], tuple(body["stop"]), body["seed"]
        )
        with self._lock:
            sample = self._engine.open([body["prompt"]], 1, sampling).turn({0: ()})[0]
        ended = len(sample.ids) < body["max_tokens"]
        return {
            "token_ids": list(sample.ids),
            "prompt_token_ids": body["prompt"],
            "logprobs": {"token_logprobs": list(sample.logprobs)},
            "finish_reason": "stop" if ended else "length",
        }
