"""How a question becomes a prompt and an observation becomes context.

`inline` is Search-R1's framing: one assistant message in which turns and observations follow each
other as plain text. `chat` puts every observation into a user message of its own. Both only ever
append token ids: nothing that was read or sampled is rendered a second time.
"""

from dataclasses import asdict, dataclass
from typing import Any

from jinja2 import TemplateError

from envs.types import Question
from retrieval.errors import InputError

from .chat import Message
from .dialects import PLAIN, Dialect

TEMPLATES = {
    # For models that a warm start teaches the grammar: every token is read in every episode.
    "minimal": (
        "Look facts up with <search> query </search>, then give <answer> answer </answer>."
    ),
    "short": (
        "Answer the question. Think inside <think> and </think>. To look something up, write "
        "<search> query </search>; results come inside <information> and </information>. When you "
        "know the answer, write it inside <answer> and </answer>, without explanation."
    ),
    # The published prompt of arXiv:2503.09516, Table 1.
    "search_r1": (
        "Answer the given question. You must conduct reasoning inside <think> and </think> first "
        "every time you get new information. After reasoning, if you find you lack some knowledge, "
        "you can call a search engine by <search> query </search> and it will return the top "
        "searched results between <information> and </information>. You can search as many times "
        "as your want. If you find no further external knowledge needed, you can directly provide "
        "the answer inside <answer> and </answer>, without detailed illustrations. For example, "
        "<answer> Beijing </answer>."
    ),
    # The published system prompt of arXiv:2503.19470, Table 1, for instruction-tuned models.
    "research": (
        "You are a helpful assistant that can solve the given question step by step with the help "
        "of the wikipedia search tool. Given a question, you need to first think about the "
        "reasoning process in the mind and then provide the answer. During thinking, you can "
        "invoke the wikipedia search tool to search for fact information about specific topics if "
        "needed. The reasoning process and answer are enclosed within <think> </think> and "
        "<answer> </answer> tags respectively, and the search query and result are enclosed within "
        "<search> </search> and <result> </result> tags respectively. For example, <think> This is "
        "the reasoning process. </think> <search> search query here </search> <result> search "
        "result here </result> <think> This is the reasoning process. </think> <answer> The final "
        "answer is \\[ \\boxed{answer here} \\] </answer>. In the last part of the answer, the "
        "final exact answer is enclosed within \\boxed{} with latex format."
    ),
    # Without search, for method `r1`.
    "r1": (
        "Answer the question. First reason inside <think> and </think>, then write the answer "
        "inside <answer> and </answer>, without explanation."
    ),
}
# Search-R1 puts a question mark after each question that has none (its data/ scripts).
_ASKING = frozenset({"search_r1"})
OPTIONS_HINT = " The answer is the letter of one option."
FRAMINGS = ("inline", "chat")
ROLES = ("user", "system")
# Stand-ins whose place in a rendered conversation shows what a template puts around a message.
_QUESTION, _ACTION, _OBSERVATION = "(first-user)", "(assistant)", "(second-user)"


@dataclass(frozen=True, slots=True)
class Framing:
    """Turns text into the ids a policy reads.

    Attributes:
        tokenizer: With a chat template.
        instruction: Stands before the question.
        role: "user" puts the instruction into the question's message, "system" into its own.
        before: Text put before an observation.
        after: Text put after it.
        asking: A question that does not end with a question mark is given one.
        dialect: The tags that the agent writes and reads.
    """

    tokenizer: Any
    instruction: str
    role: str
    before: str
    after: str
    asking: bool = False
    dialect: Dialect = PLAIN

    def messages(self, question: Question, opening: str | None = None) -> list[Message]:
        """The conversation that the agent's first turn answers.

        Args:
            question: What is asked.
            opening: The environment's first observation; None for the question as it stands.
        """
        asked = question.prompt if opening is None else opening
        if self.asking and not question.text.rstrip().endswith("?"):
            asked = asked.replace(question.text, f"{question.text.rstrip()}?", 1)
        instruction = self.instruction + (OPTIONS_HINT if question.options else "")
        if self.role == "system":
            return [Message("system", instruction), Message("user", asked)]
        return [Message("user", f"{instruction} Question: {asked}")]

    def prompt_ids(self, question: Question, opening: str | None = None) -> tuple[int, ...]:
        """The instruction, the question, and the opening of the assistant's message.

        Args:
            question: What is asked.
            opening: The environment's first observation; None for the question as it stands.

        Raises:
            InputError: A chat template that does not show messages as they are.
        """
        *first, last = self.messages(question, opening)
        rendered = self.tokenizer.apply_chat_template(
            [*map(asdict, first), {"role": "user", "content": _QUESTION}],
            add_generation_prompt=True,
            tokenize=False,
        )
        before, found, after = rendered.partition(_QUESTION)
        if not found:
            raise InputError(
                "model.name: the chat template does not show the user's message as written; choose "
                "a model whose template does"
            )
        encode = self.tokenizer.encode
        # The template may write special tokens; what a dataset brings must not be able to.
        return (
            *encode(before, add_special_tokens=False),
            *encode(last.content, add_special_tokens=False, split_special_tokens=True),
            *encode(after, add_special_tokens=False),
        )

    def observation_ids(self, observation: str, last_id: int | None = None) -> tuple[int, ...]:
        """What the agent reads after a turn.

        Args:
            observation: The environment's answer.
            last_id: The turn's last token. If it is the template's own end of a message, that is
                not written a second time.
        """
        encode = self.tokenizer.encode
        # A passage must not be able to write the template's special tokens; the template may.
        shown = self.dialect.to_agent(observation)
        inner = encode(shown, add_special_tokens=False, split_special_tokens=True)
        before = encode(self.before, add_special_tokens=False)
        if before[:1] == [last_id] and last_id in self.tokenizer.added_tokens_decoder:
            before = before[1:]
        after = encode(self.after, add_special_tokens=False)
        return (*before, *inner, *after)


def build_framing(
    tokenizer: Any, template: str, framing: str, role: str = "user", dialect: Dialect = PLAIN
) -> Framing:
    """A framing by names.

    Args:
        tokenizer: With a chat template; None where text goes to an endpoint that has its own: such
            a framing makes messages only.
        template: A key of `TEMPLATES`, or the instruction itself if it holds a space.
        framing: "inline" or "chat".
        role: "user" or "system": whose message holds the instruction.
        dialect: The tags that the agent writes and reads.

    Raises:
        InputError: Unknown names, or a chat template that refuses them.
    """
    instruction = template if " " in template else TEMPLATES.get(template)
    if instruction is None:
        raise InputError(
            f"prompt.template: unknown name {template!r}; choose one of {', '.join(TEMPLATES)}, "
            "or write the instruction itself"
        )
    for key, value, known in (("framing", framing, FRAMINGS), ("role", role, ROLES)):
        if value not in known:
            raise InputError(
                f"prompt.{key}: unknown name {value!r}; choose one of {', '.join(known)}"
            )
    try:
        inline = framing == "inline" or tokenizer is None
        borders = ("\n", "\n") if inline else _message_borders(tokenizer)
        built = Framing(tokenizer, instruction, role, *borders, template in _ASKING, dialect)
        if tokenizer is not None:
            built.prompt_ids(Question("", _QUESTION, ("",)))
    except TemplateError as error:
        raise InputError(
            f"prompt.role: the model's chat template refuses it: {error}; use user"
        ) from error
    return built


def _message_borders(tokenizer: Any) -> tuple[str, str]:
    """What the template writes between an assistant's text and the next user's, and after that.

    Taken from a conversation whose assistant turn holds no reasoning, so that a template which
    strips earlier reasoning has nothing to strip: the borders are the same, and what was sampled
    stays in the context as sampled.
    """
    rendered = tokenizer.apply_chat_template(
        [
            {"role": "user", "content": _QUESTION},
            {"role": "assistant", "content": _ACTION},
            {"role": "user", "content": _OBSERVATION},
        ],
        add_generation_prompt=True,
        tokenize=False,
    )
    _, _, tail = rendered.partition(_ACTION)
    before, found, after = tail.partition(_OBSERVATION)
    if not found:
        raise InputError(
            "prompt.framing: the chat template does not show messages in order; use inline"
        )
    return before, after
