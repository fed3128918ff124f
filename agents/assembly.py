"""From configuration to parts: the world, the policy, the rollout, the run."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from envs.limits import EnvLimits
from envs.rewards import weighted
from envs.search_env import SearchEnv
from envs.types import Dataset, Question
from retrieval.cache import CachedRetriever
from retrieval.compose import fingerprint_of, needs_corpus
from retrieval.corpus import Corpus, read_corpus
from retrieval.errors import InputError
from retrieval.isolate import Isolated
from retrieval.types import Retriever

from .algorithm import Algorithm, ValueFunction
from .checkpoint import load_adapter
from .command_line import Plugin
from .config import ENGINE, EnvOptions, ModelOptions, PromptOptions, RunConfig
from .critic import Critic
from .models import load_base
from .policy import LoraOptions, SearchPolicy
from .prompts import Framing, build_framing
from .rollout import Rollout
from .sampler import Sampler
from .seeding import Draw, derive

_SAMPLED_QUESTIONS = 64
STOP = ("</search>", "</answer>")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def build_dataset(plugin: Plugin, split: str | None = None) -> Dataset:
    """The dataset; with `split`, that split of it instead of the configured one."""
    if split is not None:
        if not hasattr(plugin.config, "split"):
            raise InputError(
                f"evaluation.split: dataset {plugin.name!r} has no splits; set "
                "evaluation.questions to 0"
            )
        plugin = replace(plugin, config=replace(plugin.config, split=split))
    dataset: Dataset = plugin.build()
    if not dataset.questions:
        raise InputError(
            f"dataset: {plugin.name} has no questions in split "
            f"{getattr(plugin.config, 'split', 'all')!r}; check its settings"
        )
    return dataset


def build_retriever(plugin: Plugin, dataset: Dataset) -> tuple[CachedRetriever, str]:
    """The search engine over the configured corpus, or over the dataset's own passages.

    Returns:
        The engine behind a memo, and the corpus fingerprint. With `retriever.isolate` it runs in a
        process of its own, behind the same memo.

    Raises:
        InputError: No corpus at all.
    """
    corpus = None
    if plugin.options.corpus is not None:
        corpus = read_corpus(plugin.options.corpus)
    elif not needs_corpus(plugin.module, plugin.config):
        pass
    elif dataset.passages is not None:
        corpus = Corpus.of(dataset.passages)
    else:
        raise InputError(
            "retriever.corpus: this dataset brings no passages; give --retriever.corpus FILE"
        )
    isolate = plugin.options.isolate
    retriever: Retriever = (
        Isolated(plugin.name, plugin.config, corpus) if isolate else plugin.build(corpus)
    )
    return CachedRetriever(retriever), fingerprint_of(retriever, corpus)


def build_policy(options: ModelOptions, seed: int) -> SearchPolicy:
    """The base model with the adapter named, or fresh ones drawn from the run's seed."""
    device = _device(options.device)
    base, tokenizer = load_base(options.name, _dtype(options.dtype, device), device)
    lora = LoraOptions(
        rank=options.lora_rank,
        alpha=options.lora_alpha,
        target_modules=options.lora_target_modules,
        last_layers=options.lora_last_layers,
    )
    with torch.random.fork_rng():
        torch.manual_seed(derive(seed, Draw.ADAPTER))
        with warnings.catch_warnings():
            # peft asks transformers in words that will go; nothing for who runs a command.
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
            policy = SearchPolicy.with_lora(base, tokenizer, lora)
    if options.adapter is not None:
        load_adapter(policy, Path(options.adapter))
    return policy


def build_critic(policy: SearchPolicy, value: ValueFunction, config: RunConfig) -> Critic:
    """The critic that an algorithm asks for, drawn from the run's seed."""
    model = config.model
    options = LoraOptions(
        rank=value.rank,
        # The policy's scale, alpha / rank.
        alpha=max(1, round(model.lora_alpha * value.rank / model.lora_rank)),
        target_modules=model.lora_target_modules,
        last_layers=model.lora_last_layers,
    )
    with torch.random.fork_rng():
        torch.manual_seed(derive(config.run.seed, Draw.CRITIC))
        return Critic(policy, options, value.lr)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"model.device: {name!r} is not to be had here; use auto or cpu"
        ) from error


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        if device.type == "cuda":
            fast = torch.cuda.is_bf16_supported()
        else:
            able = torch.cpu.get_capabilities()
            fast = bool(able.get("amx_bf16") or able.get("avx512_bf16"))
        return torch.bfloat16 if fast else torch.float32
    if name not in DTYPES:
        known = ", ".join(["auto", *DTYPES])
        raise InputError(f"model.dtype: unknown {name!r}; choose one of {known}")
    return DTYPES[name]


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """The sections that say how episodes are played."""

    env: EnvOptions
    prompt: PromptOptions
    engine: Plugin


def build_rollout(
    policy: SearchPolicy, dataset: Dataset, retriever: CachedRetriever, options: PlayOptions
) -> Rollout:
    """Everything needed to play episodes of a dataset with a policy.

    Raises:
        InputError: An engine that gives no tokens, or a prompt that the model's template refuses.
    """
    check_samples_tokens(options.engine)
    prompt = options.prompt
    framing = build_framing(policy.tokenizer, prompt.template, prompt.framing, prompt.role)
    return Rollout(
        engine=options.engine.build(policy),
        framing=framing,
        make_env=env_factory(policy, framing, dataset, retriever, options),
        retriever=retriever,
        decode=policy.decode,
        top_k=options.env.top_k,
        max_episodes=options.engine.options.max_episodes,
    )


def check_samples_tokens(engine: Plugin) -> None:
    """Refuse an engine that gives only text.

    Raises:
        InputError: It is one.
    """
    if not hasattr(engine.module, "build"):
        raise InputError(
            f"engine.name: {engine.name} gives text only and cannot train; use {ENGINE.default}"
        )


def env_factory(
    policy: SearchPolicy,
    framing: Framing,
    dataset: Dataset,
    retriever: CachedRetriever,
    options: PlayOptions,
) -> Callable[[], SearchEnv]:
    """A function that makes environments which count in the policy's own tokens."""
    env = options.env
    around = _tokens_around(policy, framing, dataset.questions, env.max_turns)
    try:
        limits = EnvLimits(
            top_k=env.top_k,
            max_turns=env.max_turns,
            max_observation_tokens=env.max_observation_tokens,
            max_context_tokens=env.max_context_tokens and env.max_context_tokens - around,
            reserve_tokens=options.engine.options.max_tokens,
            count_tokens=lambda text: len(policy.encode(text)),
        )
    except InputError as error:
        raise InputError(
            f"env.max_context_tokens is {env.max_context_tokens}, of which prompt and chat "
            f"template take {around}: {error}"
        ) from error
    reward = weighted(env.reward)
    return lambda: SearchEnv(
        questions=dataset.questions, retriever=retriever, reward=reward, limits=limits
    )


def _tokens_around(
    policy: SearchPolicy, framing: Framing, questions: Sequence[Question], max_turns: int
) -> int:
    """What stands around question, turns and observations: the environment counts only those."""
    prompt = max(
        len(framing.prompt_ids(question)) - len(policy.encode(question.prompt))
        # Tokens merge differently with what stands before them, and options bring a hint.
        for question in questions[:_SAMPLED_QUESTIONS]
    )
    return prompt + (max_turns - 1) * len(framing.observation_ids(""))


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run is made of, built and checked before anything is written."""

    config: RunConfig
    folder: Path
    policy: SearchPolicy
    rollout: Rollout
    questions: Sequence[Question]
    held_out: Sequence[Question]
    demonstrate: Any
    algorithm: Algorithm
    critic: Critic | None
    sampler: Sampler


def build_parts(config: RunConfig) -> Parts:
    """Build everything; bad input is found here.

    Raises:
        InputError: Anything wrong with the configuration or the files it names.
    """
    check_samples_tokens(config.engine)
    dataset = build_dataset(config.dataset)
    if config.warm_start.steps and dataset.demonstrate is None:
        raise InputError(
            f"warm_start.steps: dataset {config.dataset.name!r} has no expert to clone; set it to 0"
        )
    held_out: Sequence[Question] = ()
    if config.evaluation.questions:
        held_out = build_dataset(config.dataset, config.evaluation.split).questions
        _check_held_out(dataset.questions, held_out)
    retriever, _ = build_retriever(config.retriever, dataset)
    algorithm: Algorithm = config.algorithm.build()
    policy = build_policy(config.model, config.run.seed)
    value = algorithm.value
    play = PlayOptions(config.env, config.prompt, config.engine)
    return Parts(
        config=config,
        folder=Path(config.run.dir),
        policy=policy,
        rollout=build_rollout(policy, dataset, retriever, play),
        questions=dataset.questions,
        held_out=held_out[: config.evaluation.questions],
        demonstrate=dataset.demonstrate,
        algorithm=algorithm,
        critic=None if value is None else build_critic(policy, value, config),
        sampler=config.sampling.build(len(dataset.questions), config.run.seed),
    )


def _check_held_out(trained: Sequence[Question], held_out: Sequence[Question]) -> None:
    ids = {question.id for question in trained}
    shared = sum(question.id in ids for question in held_out)
    if shared:
        raise InputError(
            f"evaluation.split: {shared} of its {len(held_out)} questions are trained on too; set "
            "dataset.split to train and evaluation.split to test, or evaluation.questions to 0"
        )
