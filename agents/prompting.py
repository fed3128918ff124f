"""Play scripts side by side: what they ask the model is batched, and so are their searches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envs.actions import LAST_TURN, parse
from envs.search_env import SearchEnv
from envs.types import ActionKind, Question
from retrieval.cache import CachedRetriever
from retrieval.errors import RetrievalError

from .chat import Ask, ChatModel, ModelError, Reply
from .lookahead import prefetch
from .methods import Script, Seen
from .predictions import Played
from .rollout import Progress


@dataclass(frozen=True, slots=True)
class Prompting:
    """Everything needed to play scripts.

    Attributes:
        write: (question, the environment's opening) -> its script.
        chat: The model.
        make_env: A fresh environment, one per episode; all share `retriever`.
        retriever: Asked once per round with the queries of all episodes.
        top_k: The environment's passages per search, for the prefetch to ask the same.
    """

    write: Callable[[Question, str], Script]
    chat: ChatModel
    make_env: Callable[[], SearchEnv]
    retriever: CachedRetriever
    top_k: int

    def play(self, questions: Sequence[Question], progress: Progress) -> list[Played]:
        """Play each question once; all of them at the same time.

        Raises:
            ModelError: The model failed in every episode.
        """
        players = [_Player(self.make_env(), question, self.write) for question in questions]
        active = players
        while active:
            self._ask([player for player in active if isinstance(player.wish, Ask)])
            turns = [player for player in active if isinstance(player.wish, str)]
            actions = [parse(str(player.wish)) for player in turns]
            queries = [a.content for a in actions if a.kind is ActionKind.SEARCH]
            prefetch(self.retriever, queries, self.top_k)
            for player in turns:
                player.act()
            left = [player for player in active if not player.ended]
            progress(len(active) - len(left))
            active = left
        errors = [player.error for player in players if player.error is not None]
        if len(errors) == len(players):
            raise errors[0]
        return [player.played() for player in players]

    def _ask(self, players: Sequence["_Player"]) -> None:
        asks = [player.wish for player in players if isinstance(player.wish, Ask)]
        if not asks:
            return
        for player, reply in zip(players, self.chat.complete(asks), strict=True):
            player.told(reply)


class _Player:
    """One script and its episode. `wish` is what the script waits for."""

    def __init__(
        self, env: SearchEnv, question: Question, write: Callable[[Question, str], Script]
    ) -> None:
        self.ended = False
        self.error: ModelError | None = None
        self._env = env
        self._tokens = 0
        self._truncated = 0
        opening, _ = env.reset(options={"question": question})
        self._script = write(question, opening)
        self.wish = next(self._script)

    def told(self, reply: Reply | ModelError) -> None:
        """Pass on the model's reply."""
        if isinstance(reply, ModelError):
            self.error = reply
            self._end()
            return
        self._tokens += reply.tokens
        self._truncated += reply.truncated
        self.wish = self._script.send(reply.text)

    def act(self) -> None:
        """Play the turn that the script wishes."""
        assert isinstance(self.wish, str)
        try:
            observation, _, terminated, truncated, info = self._env.step(self.wish)
        except RetrievalError:
            terminated, truncated = False, True  # recorded by the environment
        if terminated or truncated:
            self._end()
            return
        last = observation.endswith(LAST_TURN)
        text = observation.removesuffix(LAST_TURN).rstrip("\n")
        self.wish = self._script.send(Seen(text, info["step"].hits, last, observation))

    def played(self) -> Played:
        """The episode as it ended."""
        failed = self.error is not None
        return Played(self._env.episode, self._tokens, self._truncated, failed)

    def _end(self) -> None:
        self._script.close()
        self.ended = True
