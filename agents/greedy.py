"""A method -> how it plays questions: which model, which prompts, which environment."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from envs.actions import count_words
from envs.types import Question
from retrieval.cache import CachedRetriever
from retrieval.errors import InputError

from .assembly import build_policy
from .chat import Ask, ChatModel, ModelError, Reply
from .config import PromptOptions
from .evaluation import Play, greedy
from .local_chat import LocalChat
from .methods import Method, Prompted, Script, Seen, Setting, TagAgent, ask, assistant, user
from .playing import STOP, PlayOptions, build_rollout, make_env_of
from .prompting import Prompting
from .prompts import Framing, build_framing


@dataclass(frozen=True, slots=True)
class Table:
    """What all methods play with.

    Attributes:
        setting: The questions and the corpus.
        retriever: The search engine.
        options: Sections env, prompt and engine.
        model: Section model.
    """

    setting: Setting
    retriever: CachedRetriever
    options: PlayOptions
    model: Any


def build_play(method: Method, table: Table) -> Play:
    """How a method plays.

    Raises:
        InputError: A model that is not to be had, or settings that do not fit it.
    """
    options = table.options
    if method.turns is not None:
        options = replace(options, env=replace(options.env, max_turns=method.turns))
    engine, dataset, retriever = options.engine, table.setting.dataset, table.retriever
    max_tokens = engine.options.max_tokens
    count_tokens: Callable[[str], int] = count_words
    chat: ChatModel = _NoModel()
    if hasattr(engine.module, "connect"):
        chat = engine.module.connect(engine.config, max_tokens)
    elif not isinstance(method, Prompted) or method.asks_model:
        policy = build_policy(table.model, seed=0)
        if isinstance(method, TagAgent):
            rollout = build_rollout(policy, dataset, retriever, options, method.dialect)
            return greedy(rollout, max_tokens, STOP)
        chat = LocalChat(policy, engine.build(policy), max_tokens, engine.options.max_episodes)
        count_tokens = policy.count_tokens
    make_env = make_env_of(dataset, retriever, options, count_tokens)
    write = _writer(method, options.prompt)
    return Prompting(write, chat, make_env, retriever, options.env.top_k).play


def _writer(method: Method, prompt: PromptOptions) -> Callable[[Question, str], Script]:
    if isinstance(method, Prompted):
        play = method.play
        return lambda question, opening: play(question)
    framing = build_framing(None, prompt.template, prompt.framing, prompt.role, method.dialect)
    return tag_script(framing, inline=prompt.framing == "inline")


def tag_script(framing: Framing, inline: bool) -> Callable[[Question, str], Script]:
    """The tag agent as a script, for models that are reached as text only.

    Args:
        framing: How question and observations are put.
        inline: Turns and observations make one assistant message, which the model continues; else
            every observation is a user message.
    """

    def write(question: Question, opening: str) -> Script:
        messages = framing.messages(question, opening)
        said = ""
        while True:
            so_far = [assistant(said)] if said else []
            turn = yield from ask(*messages, *so_far, stop=STOP)
            seen = yield framing.dialect.to_env(turn)
            assert isinstance(seen, Seen)
            observed = framing.dialect.to_agent(seen.observation)
            if inline:
                said += f"{turn}{framing.before}{observed}{framing.after}"
            else:
                messages += [assistant(turn), user(observed)]

    return write


class _NoModel:
    """Stands where a script asks no model."""

    def complete(self, asks: Sequence[Ask]) -> list[Reply | ModelError]:
        raise InputError("method.name: this script asks a model; it must not say asks_model=False")
