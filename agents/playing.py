"""From configuration to play: environments, and the rollout of a policy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envs.actions import count_words
from envs.limits import EnvLimits
from envs.rewards import weighted
from envs.search_env import SearchEnv
from envs.types import Dataset, Question, Reward
from retrieval.cache import CachedRetriever
from retrieval.errors import InputError

from .command_line import Plugin
from .config import ENGINE, EnvOptions, PromptOptions
from .dialects import PLAIN, Dialect
from .policy import SearchPolicy
from .prompts import Framing, build_framing
from .rollout import Rollout

# A turn ends with either.
STOP = ("</search>", "</answer>")
_SAMPLED_QUESTIONS = 64


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """The sections that say how episodes are played.

    Attributes:
        env: Limits and reward.
        prompt: What the agent reads.
        engine: What generates, and the most tokens of a turn.
        reward: Instead of the section's.
    """

    env: EnvOptions
    prompt: PromptOptions
    engine: Plugin
    reward: Reward | None = None


def build_rollout(
    policy: SearchPolicy,
    dataset: Dataset,
    retriever: CachedRetriever,
    options: PlayOptions,
    dialect: Dialect = PLAIN,
) -> Rollout:
    """Everything needed to play episodes of a dataset with a policy.

    Raises:
        InputError: An engine that gives no tokens, or a prompt that the model's template refuses.
    """
    check_samples_tokens(options.engine)
    prompt = options.prompt
    framing = build_framing(policy.tokenizer, prompt.template, prompt.framing, prompt.role, dialect)
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
    around = _tokens_around(policy, framing, dataset.questions, options.env.max_turns)
    return make_env_of(dataset, retriever, options, policy.count_tokens, around)


def make_env_of(
    dataset: Dataset,
    retriever: CachedRetriever,
    options: PlayOptions,
    count_tokens: Callable[[str], int] = count_words,
    around: int = 0,
) -> Callable[[], SearchEnv]:
    """A function that makes environments.

    Args:
        dataset: Whose questions are asked.
        retriever: Shared by all.
        options: How is played.
        count_tokens: The length of a text.
        around: Tokens that stand around question, turns and observations.

    Raises:
        InputError: env.max_context_tokens leaves no room.
    """
    env = options.env
    try:
        limits = EnvLimits(
            top_k=env.top_k,
            max_turns=env.max_turns,
            max_observation_tokens=env.max_observation_tokens,
            max_context_tokens=env.max_context_tokens and env.max_context_tokens - around,
            reserve_tokens=options.engine.options.max_tokens,
            count_tokens=count_tokens,
        )
    except InputError as error:
        raise InputError(
            f"env.max_context_tokens is {env.max_context_tokens}, of which prompt and chat "
            f"template take {around}: {error}"
        ) from error
    reward = options.reward or weighted(env.reward)
    return lambda: SearchEnv(
        questions=dataset.questions, retriever=retriever, reward=reward, limits=limits
    )


def _tokens_around(
    policy: SearchPolicy, framing: Framing, questions: Sequence[Question], max_turns: int
) -> int:
    """What stands around question, turns and observations: the environment counts only those."""
    prompt = max(
        len(framing.prompt_ids(question)) - policy.count_tokens(question.prompt)
        # Tokens merge differently with what stands before them, and options bring a hint.
        for question in questions[:_SAMPLED_QUESTIONS]
    )
    return prompt + (max_turns - 1) * len(framing.observation_ids(""))
