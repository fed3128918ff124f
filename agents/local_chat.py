"""A chat model in this process: a policy, its tokenizer's chat template, and its token engine."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from jinja2 import TemplateError

from retrieval.errors import InputError

from .chat import Ask, Message, ModelError, Reply, cut_after_stop
from .engine import Engine, Sampling
from .policy import SearchPolicy

# Stands for the content of message number n in a rendered conversation.
_STAND_IN = "(message-{})"


class LocalChat:
    """A `ChatModel` that generates greedily.

    A reply does not depend on what it is batched with, but for rounding: in float32 replies are
    the same at any batch size (tested); in bfloat16 two tokens may tie.
    """

    def __init__(
        self, policy: SearchPolicy, engine: Engine, max_tokens: int, max_episodes: int
    ) -> None:
        """A model.

        Args:
            policy: Its tokenizer writes the prompts.
            engine: Over the same policy.
            max_tokens: The most tokens of a reply.
            max_episodes: The most prompts at once; bounds the key-value cache.

        Raises:
            InputError: A chat template that does not show messages as they are written.
        """
        self._policy = policy
        self._engine = engine
        self._max_tokens = max_tokens
        self._max_episodes = max_episodes
        self._conversations = Conversations(policy.tokenizer)

    def complete(self, asks: Sequence[Ask]) -> list[Reply | ModelError]:
        """See `agents.chat.ChatModel`; a prompt that does not fit the context has no reply."""
        prompts = [self._conversations.prompt_ids(ask.messages) for ask in asks]
        replies: dict[int, Reply | ModelError] = {
            index: error
            for index, prompt in enumerate(prompts)
            if (error := self._misfit(prompt)) is not None
        }
        # A session has one set of stop strings; prompts of similar length waste less padding.
        fitting = sorted(
            (index for index in range(len(asks)) if index not in replies),
            key=lambda index: (asks[index].stop, len(prompts[index])),
        )
        for stop, group in groupby(fitting, key=lambda index: asks[index].stop):
            same = list(group)
            for start in range(0, len(same), self._max_episodes):
                part = same[start : start + self._max_episodes]
                answers = self._generate([prompts[index] for index in part], stop)
                replies.update(zip(part, answers, strict=True))
        return [replies[index] for index in range(len(asks))]

    def _misfit(self, prompt: Sequence[int]) -> ModelError | None:
        room = self._policy.max_positions
        if len(prompt) + self._max_tokens <= room:
            return None
        return ModelError(
            f"a prompt of {len(prompt)} tokens and a reply of up to {self._max_tokens} do not fit "
            f"the model's {room} positions"
        )

    def _generate(self, prompts: list[tuple[int, ...]], stop: tuple[str, ...]) -> list[Reply]:
        sampling = Sampling(self._max_tokens, temperature=0.0, stop=stop, seed=0)
        session = self._engine.open(prompts, 1, sampling)
        samples = session.turn(dict.fromkeys(range(len(prompts)), ()))
        return [self._reply(samples[row].ids, stop) for row in range(len(prompts))]

    def _reply(self, ids: Sequence[int], stop: tuple[str, ...]) -> Reply:
        text, stopped = cut_after_stop(self._policy.decode(ids), stop)
        ended = stopped or ids[-1] in self._policy.end_ids
        return Reply(text, len(ids), truncated=len(ids) == self._max_tokens and not ended)


class Conversations:
    """Token ids of conversations, by a tokenizer's chat template.

    The template may write special tokens; the contents of messages cannot. Contents stand as they
    are given: a template's changes to them, such as leaving out earlier reasoning, do not happen.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        probe = (Message("system", ""), Message("user", ""))
        try:
            self._pieces(probe)
            self._has_system_role = True
        except (TemplateError, InputError):
            self._has_system_role = False
            self._pieces(probe[1:])  # a template that does not even show this is refused here

    def prompt_ids(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """What the model reads: the conversation, and the opening of the assistant's message.

        A final assistant message is that opening: it is not closed. Where the template knows no
        system role, a system message stands before the next user message.

        Raises:
            InputError: A conversation that the template refuses, or does not show as it is.
        """
        shown = list(messages) if self._has_system_role else _without_system(messages)
        opening = shown.pop().content if shown and shown[-1].role == "assistant" else ""
        try:
            pieces = self._pieces(shown)
        except TemplateError as error:
            raise InputError(
                f"model.name: the model's chat template refuses a conversation of "
                f"{', '.join(m.role for m in shown)}: {error}; choose another method or model"
            ) from error
        encode = self._tokenizer.encode
        ids: list[int] = encode(pieces[0], add_special_tokens=False)
        for message, piece in zip(shown, pieces[1:], strict=True):
            ids += encode(message.content, add_special_tokens=False, split_special_tokens=True)
            ids += encode(piece, add_special_tokens=False)
        ids += encode(opening, add_special_tokens=False, split_special_tokens=True)
        return tuple(ids)

    def _pieces(self, messages: Sequence[Message]) -> list[str]:
        """What the template writes before, between and after the contents."""
        stand_ins = [_STAND_IN.format(number) for number in range(len(messages))]
        rest = self._tokenizer.apply_chat_template(
            [
                {"role": message.role, "content": stand_in}
                for message, stand_in in zip(messages, stand_ins, strict=True)
            ],
            add_generation_prompt=True,
            tokenize=False,
        )
        pieces = []
        for stand_in in stand_ins:
            piece, found, rest = rest.partition(stand_in)
            if not found:
                raise InputError(
                    "model.name: the chat template does not show every message, in order and as "
                    "written; choose a model whose template does"
                )
            pieces.append(piece)
        return [*pieces, rest]


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """System messages put before the next user message's text."""
    shown: list[Message] = []
    before: list[str] = []
    for message in messages:
        if message.role == "system":
            before.append(message.content)
        elif message.role == "user":
            shown.append(Message("user", "\n\n".join([*before, message.content])))
            before = []
        else:
            shown.append(message)
    return shown if not before else [*shown, Message("user", "\n\n".join(before))]
