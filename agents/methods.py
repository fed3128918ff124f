"""What an evaluated method is: an agent that writes the tags itself, or a script that prompts.

A script is a generator that plays one question. It asks the model, searches and answers by `yield
from ask(...)`, `search(...)` and `answer(...)`; the last two are turns in the environment, so that
every method meets the same search engine, rules, limits and scoring. `agents.prompting` runs many
scripts side by side and batches what they ask.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from envs.actions import escape
from envs.types import ActionKind, Dataset, Question
from retrieval.corpus import Corpus
from retrieval.types import Hit

from .chat import Ask, Message
from .dialects import PLAIN, Dialect


@dataclass(frozen=True, slots=True)
class Seen:
    """What a search showed.

    Attributes:
        text: The `<information>` block, or the environment's reminder.
        hits: The passages it shows, best first.
        last: The next turn is the last: it must be the answer.
        observation: What the environment wrote: `text`, and at the last turn its request to answer.
    """

    text: str
    hits: tuple[Hit, ...]
    last: bool
    observation: str


# What a script yields, and is given for it: Ask -> the reply's text; a turn's text -> Seen.
Script = Generator[Ask | str, str | Seen, None]


def ask(*messages: Message, stop: tuple[str, ...] = ()) -> Generator[Ask | str, str | Seen, str]:
    """The model's reply to a conversation (`agents.chat.Ask`)."""
    reply = yield Ask(messages, stop)
    assert isinstance(reply, str)
    return reply


def search(query: str, thought: str = "") -> Generator[Ask | str, str | Seen, Seen]:
    """Search, as one turn.

    Args:
        query: May be a model's text: tags in it lose their meaning.
        thought: Shown in the transcript.
    """
    seen = yield _turn(ActionKind.SEARCH, query, thought)
    assert isinstance(seen, Seen)
    return seen


def answer(text: str, thought: str = "") -> Generator[Ask | str, str | Seen, None]:
    """Answer, as the episode's last turn; a script must end with it.

    Args:
        text: May be a model's text: tags in it lose their meaning.
        thought: Shown in the transcript.
    """
    yield _turn(ActionKind.ANSWER, text, thought)


def _turn(kind: ActionKind, content: str, thought: str) -> str:
    said = f"<think>{escape(thought)}</think>\n" if thought else ""
    return f"{said}<{kind}>{escape(content)}</{kind}>"


def system(content: str) -> Message:
    """A system message."""
    return Message("system", content)


def user(content: str) -> Message:
    """A user's message."""
    return Message("user", content)


def assistant(content: str) -> Message:
    """The model's own message; as the last one it is continued."""
    return Message("assistant", content)


@dataclass(frozen=True, slots=True)
class TagAgent:
    """The model writes the environment's tags itself, as it does in training.

    Attributes:
        turns: Turns of an episode; None for those of the configuration.
        dialect: The tags it writes and reads.
    """

    turns: int | None = None
    dialect: Dialect = PLAIN


@dataclass(frozen=True, slots=True)
class Prompted:
    """A script prompts the model.

    Attributes:
        play: Question -> its script.
        turns: Turns of an episode; None for those of the configuration.
        asks_model: False for scripts that need none: it is then not loaded.
    """

    play: Callable[[Question], Script]
    turns: int | None = None
    asks_model: bool = True


Method = TagAgent | Prompted


@dataclass(frozen=True, slots=True)
class Setting:
    """What a method may know when it is built.

    Attributes:
        dataset: The questions to be played, and what belongs to them.
        corpus: What the retriever searches; None where it brings its own.
        trained_with: The algorithm of the run that the agent comes from; None for an untrained
            model.
    """

    dataset: Dataset
    corpus: Corpus | None
    trained_with: str | None

    @property
    def questions(self) -> Sequence[Question]:
        """Those of the dataset."""
        return self.dataset.questions
