"""From configuration to parts: the world, the policy, the rollout, the run."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from envs.evidence_expert import EvidenceExpert
from envs.types import Dataset, Question
from retrieval.cache import CachedRetriever
from retrieval.compose import fingerprint_of, needs_corpus
from retrieval.corpus import Corpus, read_corpus
from retrieval.errors import InputError
from retrieval.isolate import Isolated
from retrieval.types import Retriever

from .adapters import lora_options
from .algorithm import Algorithm, ValueFunction
from .checkpoint import load_adapter
from .command_line import Plugin
from .config import ModelOptions, RunConfig
from .critic import Critic
from .devices import resolve_device, resolve_dtype
from .models import load_base
from .playing import PlayOptions, build_rollout, check_samples_tokens
from .policy import SearchPolicy
from .rollout import Rollout
from .sampler import Sampler
from .seeding import Draw, derive


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

    Raises:
        InputError: No corpus at all.
    """
    return open_retriever(plugin, build_corpus(plugin, dataset))


def build_corpus(plugin: Plugin, dataset: Dataset) -> Corpus | None:
    """The configured corpus, or the dataset's own passages; None if the engine brings its own.

    Raises:
        InputError: No corpus at all.
    """
    if plugin.options.corpus is not None:
        return read_corpus(plugin.options.corpus)
    if not needs_corpus(plugin.module, plugin.config):
        return None
    if dataset.passages is not None:
        return Corpus.of(dataset.passages)
    raise InputError(
        "retriever.corpus: this dataset brings no passages; give --retriever.corpus FILE"
    )


def open_retriever(plugin: Plugin, corpus: Corpus | None) -> tuple[CachedRetriever, str]:
    """The search engine over a corpus.

    Returns:
        The engine behind a memo, and the corpus fingerprint. With `retriever.isolate` it runs in a
        process of its own, behind the same memo.
    """
    isolate = plugin.options.isolate
    retriever: Retriever = (
        Isolated(plugin.name, plugin.config, corpus) if isolate else plugin.build(corpus)
    )
    return CachedRetriever(retriever), fingerprint_of(retriever, corpus)


def build_policy(options: ModelOptions, seed: int) -> SearchPolicy:
    """The base model with the adapter named, or fresh ones drawn from the run's seed."""
    device = resolve_device(options.device)
    dtype = resolve_dtype(options.dtype, device)
    base, tokenizer = load_base(options.name, dtype, device, options.quantization)
    with torch.random.fork_rng():
        torch.manual_seed(derive(seed, Draw.ADAPTER))
        with warnings.catch_warnings():
            # peft asks transformers in words that will go; nothing for who runs a command.
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
            policy = SearchPolicy.with_lora(base, tokenizer, lora_options(options))
    if options.gradient_checkpointing:
        policy.recompute_activations()
    if options.adapter is not None:
        load_adapter(policy, Path(options.adapter))
    return policy


def build_critic(policy: SearchPolicy, value: ValueFunction, config: RunConfig) -> Critic:
    """The critic that an algorithm asks for, drawn from the run's seed."""
    model = config.model
    options = replace(
        lora_options(model),
        rank=value.rank,
        # The policy's scale, alpha / rank.
        alpha=max(1, round(model.lora_alpha * value.rank / model.lora_rank)),
    )
    with torch.random.fork_rng():
        torch.manual_seed(derive(config.run.seed, Draw.CRITIC))
        return Critic(policy, options, value.lr)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run is made of, built and checked before anything is written."""

    config: RunConfig
    folder: Path
    policy: SearchPolicy
    rollout: Rollout
    questions: Sequence[Question]
    held_out: Sequence[Question]
    demonstrate: Callable[[Question, bool], tuple[str, ...]]
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
        demonstrate=_expert(dataset, config.env.max_turns),
        algorithm=algorithm,
        critic=None if value is None else build_critic(policy, value, config),
        sampler=config.sampling.build(len(dataset.questions), config.run.seed),
    )


def _expert(dataset: Dataset, max_turns: int) -> Callable[[Question, bool], tuple[str, ...]]:
    """Whose turns a warm start clones: the world's own expert, or one that knows the evidence."""
    if max_turns == 1:
        return _answer_at_once
    return dataset.demonstrate or EvidenceExpert(max_turns - 1)


def _answer_at_once(question: Question, stop_early: bool) -> tuple[str, ...]:
    """The expert where there is no turn to search in: what supervised fine-tuning clones."""
    return (f"<answer> {question.answers[0]} </answer>",)


def _check_held_out(trained: Sequence[Question], held_out: Sequence[Question]) -> None:
    ids = {question.id for question in trained}
    shared = sum(question.id in ids for question in held_out)
    if shared:
        raise InputError(
            f"evaluation.split: {shared} of its {len(held_out)} questions are trained on too; set "
            "dataset.split to train and evaluation.split to test, or evaluation.questions to 0"
        )
