"""What the doctor checks of the policy: its template, its sampler, its adapters, its memory."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

import torch
from torch import Tensor

from envs.types import Question

from .assembly import Parts
from .batching import to_batch
from .config import RunConfig
from .engine import Sampling
from .finding import Finding
from .playing import STOP
from .policy import POLICY, SearchPolicy
from .preflight import in_words, needs, remedies, this_device
from .prompts import Framing
from .starting import begin
from .types import Trajectory

# The most that log-probabilities may differ between sampling and training, of one token and in the
# mean (T6): they are the same function, computed in other shapes. In bfloat16 the embedded model's
# differ by up to 0.51, and by 0.03 in the mean.
MOST_APART = {torch.float32: (1e-4, 1e-4), torch.bfloat16: (1.0, 0.1)}
# Of randomised LoRA B, until the policy moves so many times as far as the sampler is off it.
_SPREADS = (0.05, 0.2, 0.8)
_FAR = 5.0
_TOKENS = 16
_THOUGHT = "<think>I look it up.</think>"


def check_template(framing: Framing, question: Question, observation: str) -> Finding:
    """T5: what the agent reads is what the chat template renders, and only grows.

    Args:
        framing: Turns questions and observations into ids.
        question: One of the run's.
        observation: What the environment might answer.
    """

    def render(*turns: tuple[str, str], opened: bool = True) -> str:
        messages = [asdict(message) for message in framing.messages(question)]
        messages += [{"role": role, "content": content} for role, content in turns]
        made: str = framing.tokenizer.apply_chat_template(
            messages, add_generation_prompt=opened, tokenize=False
        )
        return made

    ids = framing.prompt_ids(question)
    prompt = _text(framing, ids)
    if prompt != render():
        return Finding(
            "the prompt's tokens are not the text that the chat template renders",
            "model.name: choose a model whose template shows messages as they are written",
        )
    measured = f"a prompt of {len(ids)} tokens, as the template renders it"
    if framing.before == framing.after == "\n":
        return Finding(f"{measured}; turns are appended to it (inline)")
    action = "<search> x </search>"
    grown = prompt + action + _text(framing, framing.observation_ids(observation))
    if render(("assistant", action), ("user", observation)) != grown:
        return Finding(
            "the template renders a conversation otherwise once it is longer",
            "prompt.framing: inline puts turns and observations into one message",
        )
    thought = render(("assistant", _THOUGHT + action), ("user", observation))
    note = "" if _THOUGHT in thought else "; it strips earlier reasoning, which stays here as read"
    return Finding(f"{measured}; a longer conversation begins with the shorter one{note}")


def check_ratio(parts: Parts, played: Sequence[Trajectory]) -> Finding:
    """T6: training sees the log-probabilities that the sampler saw.

    Args:
        parts: Of the run.
        played: Episodes sampled at its temperature.
    """
    batch = to_batch(played, parts.policy.pad_id).to(parts.policy.device)
    again = begin(parts).trainer.logprobs(batch)
    apart = (again - batch.old_logprobs)[batch.action_mask].abs()
    worst, mean = float(apart.max()), float(apart.mean())
    most, most_mean = _most_apart(parts.policy)
    said = (
        f"|log ratio| of {len(apart)} sampled tokens: max {worst:.2g} (at most {most:g}), mean "
        f"{mean:.2g} (at most {most_mean:g})"
    )
    if worst <= most and mean <= most_mean:  # not NaN either
        return Finding(said)
    return Finding(
        said,
        "the sampler and the trainer run different weights or different arithmetic: use engine.name"
        " hf, or model.dtype float32",
    )


def check_adapters(parts: Parts) -> Finding:
    """T7: the sampler runs the policy's adapters, and without them the base model is untouched."""
    policy, engine = parts.policy, parts.rollout.engine
    prompt = parts.rollout.framing.prompt_ids(parts.questions[0])
    options = Sampling(_TOKENS, temperature=1.0, stop=STOP, seed=0)

    def own(ids: Sequence[int]) -> Tensor:
        row = torch.tensor([[*prompt, *ids]], device=policy.device)
        mask = torch.arange(row.shape[1], device=policy.device)[None] >= len(prompt)
        with torch.no_grad():
            return policy.logprobs(row, mask, 1.0)[0][mask]

    def base() -> Tensor:
        with policy.reference():
            return own(probe.ids)

    probe = engine.open([prompt], 1, options).turn({0: ()})[0]
    before, plain, most = own(probe.ids), base(), _most_apart(policy)[0]
    for spread in _SPREADS:
        with randomised(policy, spread):
            moved = float((own(probe.ids) - before).abs().max())
            sample = engine.open([prompt], 1, options).turn({0: ()})[0]
            sampled = torch.tensor(sample.logprobs, device=policy.device)
            apart = float((own(sample.ids) - sampled).abs().max())
            untouched = torch.equal(base(), plain)
        follows = apart <= min(most, moved / _FAR)
        if follows:
            break
    if moved == 0:
        return Finding(
            "random adapters change no log-probability",
            "model.lora_target_modules, .lora_last_layers: adapt layers that the model runs",
        )
    if not follows:
        return Finding(
            f"random adapters move the policy by {moved:.2g} nats, and the sampler is {apart:.2g} "
            "off it: it has old ones",
            "the engine must take the policy's adapters at every open(); use engine.name hf",
        )
    if not (untouched and torch.equal(base(), plain) and torch.equal(own(probe.ids), before)):
        return Finding(
            "switching adapters changes what the base model computes",
            "model.name: its layers are merged or shared; choose another model",
        )
    return Finding(
        f"random adapters move the sampler too: by {moved:.2g} nats, {apart:.2g} off the policy; "
        "without adapters the base is bit-identical"
    )


def check_memory(config: RunConfig) -> Finding:
    """T24: what the run takes at its worst moment, against its device; to ask before it is built.

    Raises:
        InputError: No such model or device.
    """
    device = this_device(config)
    needed = needs(config, device)
    said = in_words(needed, device)
    if needed.peak <= device.memory:
        return Finding(said)
    flags = remedies(config, device)
    smaller = "choose a smaller model or another machine; train.py --dry-run shows the estimate"
    return Finding(said, " ".join(flags) if flags else smaller)


@contextmanager
def randomised(policy: SearchPolicy, spread: float) -> Iterator[None]:
    """Within this context every LoRA B of the policy is random; afterwards it is what it was.

    Args:
        policy: Whose adapters.
        spread: The standard deviation of what they become.
    """
    chosen = [
        parameter
        for name, parameter in policy.model.named_parameters()
        if "lora_B" in name and f".{POLICY}." in name
    ]
    kept = [parameter.detach().clone() for parameter in chosen]
    random = torch.Generator().manual_seed(0)
    try:
        for parameter in chosen:
            parameter.data.copy_(spread * torch.randn(parameter.shape, generator=random))
        yield
    finally:
        for parameter, before in zip(chosen, kept, strict=True):
            parameter.data.copy_(before)


def _text(framing: Framing, ids: Sequence[int]) -> str:
    """What the ids say, special tokens included."""
    text: str = framing.tokenizer.decode(
        list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    return text


def _most_apart(policy: SearchPolicy) -> tuple[float, float]:
    return MOST_APART.get(policy.dtype, MOST_APART[torch.bfloat16])
