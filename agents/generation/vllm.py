"""vLLM as the sampler: `vllm serve` in an environment of its own, token ids in and out.

vLLM pins another release of transformers than this project, so it never shares a process with it.
The engine starts a server beside the run, or uses one that runs elsewhere (docs/training.md).

Every change of the policy's adapter is written to a folder and loaded under a new name. A name is
never used twice: vLLM finds cached prefixes by the adapter's name, and a second adapter of the same
name would be given the first one's (vllm-project/vllm issue 42125). After each change a few turns
are compared with the policy's own forward pass (agents/delivery.py).

vLLM's kernels compute a slightly different function: training corrects for it with
`importance_cap` (agents/correction.py).
"""

import secrets
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from retrieval.errors import InputError
from retrieval.replicas import check_url

from .. import bounds
from ..delivery import Spoken, check_delivery
from ..engine import Ended, Engine, Sample, Sampling
from ..policy import POLICY, SearchPolicy
from ..seeding import Draw, derive
from ..turn_end import TurnEnd
from ..vllm_process import ServerOptions, VllmProcess
from ..vllm_server import Completion, VllmServer
from ..writing import scratch_folder

PROBED_ROWS = 4  # turns compared with the policy after each change of the adapter


@dataclass(frozen=True, slots=True)
class Config:
    """A server, and how to start one.

    Attributes:
        server: URL of a running `vllm serve`; empty to start one for this run alone.
        executable: The `vllm` command of vLLM's environment, for a server started here.
        adapter_dir: A folder that this process writes adapters to and the server reads them from;
            empty for a temporary one, which a server on this machine can read.
        gpu_memory_utilization: Share of the GPU's memory that a server started here may take; the
            rest is for training.
        max_model_len: The longest episode in tokens; null for the model's own limit.
        tensor_parallel_size: GPUs that share the model, for a server started here.
        enable_prefix_caching: Read a group's prompt and an episode's earlier turns once.
        importance_cap: The largest weight of a token in the correction for the mismatch between
            sampler and policy.
        concurrency: The most requests under way at once.
        timeout_s: Seconds that one turn of all episodes may take, and a server to start.
        flags: Further flags of `vllm serve`, for a server started here.
    """

    server: str = ""
    executable: str = "vllm"
    adapter_dir: str = ""
    gpu_memory_utilization: float = 0.4
    max_model_len: int | None = None
    tensor_parallel_size: int = 1
    enable_prefix_caching: bool = True
    importance_cap: float = 2.0
    concurrency: int = 256
    timeout_s: float = 1800.0
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.server:
            try:
                check_url(self.server)
            except InputError as error:
                raise InputError(f"server: {error}") from error
        bounds.share(self, "gpu_memory_utilization")
        bounds.at_least(self, 1, "max_model_len", "tensor_parallel_size", "concurrency")
        bounds.at_least(self, 1, "importance_cap")
        bounds.positive(self, "gpu_memory_utilization", "timeout_s")


def build(config: Config, policy: SearchPolicy) -> Engine:
    """The engine over a policy; starts the server, which takes a minute or more.

    Raises:
        InputError: vLLM is not there, or does not start.
    """
    return VllmEngine(config, policy)


class VllmEngine:
    """Samples from a vLLM server that is given the policy's adapter.

    Attributes:
        importance_cap: See `Engine`.
        policy: Whose adapter is served.
        server: The server.
        limit: The longest episode in tokens.
        model: What the server is asked for: the adapter's present name, or the base model's.
        times_opened: Sessions so far.
        unproven: Whether the adapter has changed since it was last compared with the policy.
    """

    importance_cap: float | None

    def __init__(self, config: Config, policy: SearchPolicy) -> None:
        self.importance_cap = config.importance_cap
        self.policy = policy
        self.times_opened = 0
        self.unproven = False
        self._delivered: list[torch.Tensor] | None = None
        self._folder: Path | None = None  # of the adapter that is served
        self._changes = 0
        self._prefix = f"turngrad-{secrets.token_hex(6)}"
        own = Path(tempfile.mkdtemp(prefix="turngrad-vllm-"))
        shared = Path(config.adapter_dir).absolute() if config.adapter_dir else own
        self._adapters = shared / self._prefix
        process = None if config.server else _start(config, policy, own)
        self._finalizer = weakref.finalize(self, _clear, process, own, self._adapters)
        url = config.server if process is None else process.url
        self.server = VllmServer(url, config.timeout_s, config.concurrency)
        self.model = self.server.base_model
        self.limit = min(self.server.max_model_len, policy.max_positions)

    def close(self) -> None:
        """Stop the server, if it was started here; called at the end of the process by itself."""
        self._finalizer()

    def open(
        self, prompts: Sequence[Sequence[int]], group_size: int, sampling: Sampling
    ) -> "VllmSession":
        """Bring the server's adapter up to date; ends the session before."""
        self._deliver()
        self.times_opened += 1
        return VllmSession(self, prompts, group_size, sampling)

    @torch.no_grad()
    def _deliver(self) -> None:
        """Give the server the policy's adapter if that is not the one it has."""
        present = self.policy.trainable_parameters()
        # Compared, not counted: whatever changed the weights, and however, is seen.
        if self._delivered is not None and all(map(torch.equal, present, self._delivered)):
            return
        self._changes += 1
        name = f"{self._prefix}-{self._changes}"
        folder = self._adapters / name
        with scratch_folder(folder) as scratch:
            self.policy.model.save_pretrained(scratch, selected_adapters=[POLICY])
            scratch.rename(folder)
        if self._folder is not None:
            self.server.unload_adapter(self.model)
        self.server.load_adapter(name, folder)
        if self._folder is not None:
            # Only now: a server of several runs may put an adapter aside and read it again.
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = folder
        self.model = name
        self._delivered = [parameter.clone() for parameter in present]
        self.unproven = True


class VllmSession:
    """R episodes; the server finds what it has read of them in its prefix cache."""

    def __init__(
        self,
        engine: VllmEngine,
        prompts: Sequence[Sequence[int]],
        group_size: int,
        sampling: Sampling,
    ) -> None:
        rows = range(len(prompts) * group_size)
        seeds = sampling.group_seeds(len(prompts))
        self._seeds = {row: (seeds[row // group_size], row % group_size) for row in rows}
        self._engine = engine
        self._sampling = sampling
        self._opening = engine.times_opened
        self._texts = {row: list(prompts[row // group_size]) for row in rows}
        self._turns = 0

    def turn(
        self, contexts: Mapping[int, Sequence[int]], ended: Ended = lambda row, sample: None
    ) -> dict[int, Sample]:
        """Sample one turn of each row from its whole text so far."""
        if self._engine.times_opened != self._opening:
            raise ValueError("turn: the engine has opened another session since")
        if not contexts.keys() <= self._texts.keys():
            raise ValueError("turn: a context for a row that had left the batch")
        texts = {row: [*self._texts[row], *context] for row, context in contexts.items()}
        self._check_room(texts)
        rows = list(texts)
        made: dict[int, Sample] = {}

        def complete(place: int, completion: Completion) -> None:
            made[rows[place]] = self._sample(completion)
            ended(rows[place], made[rows[place]])

        self._engine.server.complete([self._request(row, texts[row]) for row in rows], complete)
        samples = {row: made[row] for row in rows}
        if self._engine.unproven:
            self._prove(texts, samples)
        self._texts = {row: [*text, *samples[row].ids] for row, text in texts.items()}
        self._turns += 1
        return samples

    def _request(self, row: int, text: Sequence[int]) -> dict[str, Any]:
        sampling, (seed, member) = self._sampling, self._seeds[row]
        return {
            "model": self._engine.model,
            "prompt": text,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "seed": derive(seed, Draw.TURN, member, self._turns),
            "stop": list(sampling.stop),
            "stop_token_ids": sorted(self._engine.policy.end_ids),
        }

    def _sample(self, completion: Completion) -> Sample:
        """The completion up to the end of the turn.

        The server joins pieces to text in its own way; what it may have sampled beyond the end by
        the rule of all engines is left off, and what stands before it is a sample all the same.
        """
        end = TurnEnd(self._engine.policy, self._sampling)
        length = next(
            (place for place, token in enumerate(completion.ids, 1) if end.reached(token)),
            len(completion.ids),
        )
        return Sample(completion.ids[:length], completion.logprobs[:length])

    def _check_room(self, texts: Mapping[int, Sequence[int]]) -> None:
        needed = max(map(len, texts.values()), default=0) + self._sampling.max_tokens
        if needed > self._engine.limit:
            raise InputError(
                f"an episode may outgrow the {self._engine.limit} positions that vLLM serves "
                f"({needed} with the next turn): lower env.max_turns, env.max_observation_tokens "
                "or env.max_context_tokens, or raise engine.max_model_len"
            )

    def _prove(self, texts: Mapping[int, Sequence[int]], samples: Mapping[int, Sample]) -> None:
        """Compare the first turns under a new adapter with the policy."""
        rows = list(samples)[:PROBED_ROWS]
        turns = [Spoken(texts[row], samples[row].ids, samples[row].logprobs) for row in rows]
        check_delivery(self._engine.policy, turns, self._sampling.temperature)
        self._engine.unproven = False


def _start(config: Config, policy: SearchPolicy, folder: Path) -> VllmProcess:
    flags = [
        *("--gpu-memory-utilization", str(config.gpu_memory_utilization)),
        *("--tensor-parallel-size", str(config.tensor_parallel_size)),
        "--enable-prefix-caching" if config.enable_prefix_caching else "--no-enable-prefix-caching",
    ]
    if config.max_model_len is not None:
        flags += ["--max-model-len", str(config.max_model_len)]
    one_gpu = policy.device.type == "cuda" and config.tensor_parallel_size == 1
    options = ServerOptions(
        executable=config.executable,
        model=_base_source(policy, folder / "base"),
        dtype=str(policy.dtype).removeprefix("torch."),
        lora_rank=policy.model.active_peft_config.r,
        gpu=policy.device.index or 0 if one_gpu else None,
        flags=(*flags, *config.flags),
    )
    return VllmProcess(options, folder / "vllm.log", config.timeout_s)


def _base_source(policy: SearchPolicy, folder: Path) -> str:
    """What to serve: where the base model was loaded from, or a copy if that was nowhere."""
    config = policy.model.config
    if config.name_or_path:
        return str(config.name_or_path)
    config.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    state = {name: weight.detach().cpu() for name, weight in policy.base_state().items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder)


def _clear(process: VllmProcess | None, *folders: Path) -> None:
    if process is not None:
        process.stop()
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
