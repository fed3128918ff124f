"""Methods played in a real environment by a model whose replies are written down."""

from collections.abc import Callable, Sequence
from typing import Any

from agents.chat import Ask, ModelError, Reply
from agents.methods import Method, Prompted, Setting
from agents.predictions import Played
from agents.prompting import Prompting
from envs.limits import EnvLimits
from envs.search_env import SearchEnv
from envs.types import Dataset, Episode, Question
from retrieval import plugins
from retrieval.corpus import Corpus
from tests.agents import builds


class WrittenChat:
    """Replies as written; a token a word. Keeps what it was asked."""

    def __init__(self, reply: Callable[[Ask], str | ModelError]) -> None:
        self.asked: list[Ask] = []
        self._reply = reply

    def complete(self, asks: Sequence[Ask]) -> list[Reply | ModelError]:
        self.asked += asks
        written = [self._reply(request) for request in asks]
        return [
            text if isinstance(text, ModelError) else Reply(text, len(text.split()), False)
            for text in written
        ]


def replying(*replies: str) -> WrittenChat:
    """One reply after the other, for a single question."""
    rest = iter(replies)
    return WrittenChat(lambda request: next(rest))


def build(
    name: str,
    dataset: Dataset | None = None,
    trained_with: str | None = None,
    with_corpus: bool = True,
    **options: Any,
) -> Method:
    """A method by name, over the small atlas."""
    module = plugins.load("agents.baselines", name)
    dataset = dataset or builds.world()
    corpus = Corpus.of(builds.world().passages or ()) if with_corpus else None
    method: Method = module.build(module.Config(**options), Setting(dataset, corpus, trained_with))
    return method


def play(
    method: Method, chat: WrittenChat, questions: Sequence[Question], **limits: int
) -> list[Played]:
    """Play the questions of the small atlas, or others over its passages."""
    assert isinstance(method, Prompted)
    turns = method.turns or limits.get("max_turns", 4)
    bounds = EnvLimits(**{"top_k": 2, **limits, "max_turns": turns})
    prompting = Prompting(
        write=lambda question, opening: method.play(question),
        chat=chat,
        make_env=lambda: SearchEnv(
            questions=questions,
            retriever=builds.search_engine(),
            reward={"exact_match": 1.0},
            limits=bounds,
        ),
        retriever=builds.search_engine(),
        top_k=bounds.top_k,
    )
    return prompting.play(questions, lambda ended: None)


def play_one(method: Method, chat: WrittenChat, question: Question, **limits: int) -> Episode:
    """Play one question."""
    return play(method, chat, [question], **limits)[0].episode


def queries(episode: Episode) -> list[str]:
    """The queries of the executed searches."""
    return [step.action.content for step in episode.steps if step.action.kind == "search"]
