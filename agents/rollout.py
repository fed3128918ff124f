"""Play episodes in lockstep: G per question, every turn of all of them sampled in one batch."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from envs.actions import parse
from envs.search_env import SearchEnv
from envs.types import ActionKind, Episode, Question, StopReason
from retrieval.cache import CachedRetriever
from retrieval.errors import RetrievalError

from .engine import Engine, Sample, Sampling, Session
from .host_memory import give_back
from .lookahead import Lookahead
from .prompts import Framing
from .types import Trajectory, Turn

# Called with the number of episodes that have just ended.
Progress = Callable[[int], Any]


@dataclass(frozen=True, slots=True)
class Rollout:
    """Everything needed to play.

    Attributes:
        engine: Samples turns.
        framing: Turns questions and observations into token ids.
        make_env: A fresh environment, one per episode; all share `retriever`.
        retriever: Asked before the environments ask (`Lookahead`).
        decode: Token ids -> the text of a turn.
        top_k: The environment's passages per search, for the prefetch to ask the same.
        max_episodes: Episodes played at the same time; a larger call is played in parts.
    """

    engine: Engine
    framing: Framing
    make_env: Callable[[], SearchEnv]
    retriever: CachedRetriever
    decode: Callable[[Sequence[int]], str]
    top_k: int
    max_episodes: int

    def play(
        self,
        questions: Sequence[Question],
        group_size: int,
        sampling: Sampling,
        first_group_id: int = 0,
        progress: Progress = lambda ended: None,
    ) -> list[Trajectory]:
        """Play `group_size` episodes of each question.

        Args:
            questions: One group each; a question may stand there twice and is then two groups.
            group_size: Samples per question (G).
            sampling: How tokens are drawn.
            first_group_id: The group id of the first question; the others count up from it. A
                group's samples depend on its id, not on the part or the process that plays it.
            progress: Told how many episodes ended.

        Returns:
            len(questions) * G trajectories, the samples of a question side by side. Those whose
            retrieval failed have StopReason.RETRIEVAL_ERROR and must be left out of training.

        Raises:
            ValueError: A group of more than `max_episodes`.
        """
        per_part = self.max_episodes // group_size
        if per_part == 0:
            raise ValueError(f"a group of {group_size} is more than {self.max_episodes} episodes")
        trajectories: list[Trajectory] = []
        for start in range(0, len(questions), per_part):
            part = questions[start : start + per_part]
            first = first_group_id + start
            ids = tuple(range(first, first + len(part)))
            players = [
                _Player(self.make_env(), question, group_id)
                for group_id, question in zip(ids, part, strict=True)
                for _ in range(group_size)
            ]
            self._play_part(players, group_size, replace(sampling, group_ids=ids), progress)
            give_back()  # training, or the next part's cache, needs it in other pieces
            trajectories.extend(player.trajectory() for player in players)
        return trajectories

    def _play_part(
        self,
        players: list["_Player"],
        group_size: int,
        sampling: Sampling,
        progress: Progress,
    ) -> None:
        # The samples of a group open alike: one prompt serves them all.
        prompts = [player.prompt_ids(self.framing) for player in players[::group_size]]
        session: Session = self.engine.open(prompts, group_size, sampling)
        for index, player in enumerate(players):
            player.unread = prompts[index // group_size]
        # The session has read the prompts already.
        contexts: dict[int, Sequence[int]] = dict.fromkeys(range(len(players)), ())
        with closing(Lookahead(self.retriever, self.top_k)) as lookahead:
            while contexts:
                samples, texts = self._turn(session, contexts, lookahead)
                for row, sample in samples.items():
                    players[row].step(texts[row], sample, self.framing)
                contexts = {row: players[row].unread for row in samples if not players[row].ended}
                progress(len(samples) - len(contexts))

    def _turn(
        self, session: Session, contexts: dict[int, Sequence[int]], lookahead: Lookahead
    ) -> tuple[dict[int, Sample], dict[int, str]]:
        """A turn of all rows, and what they say to the environment; their searches are done."""
        texts: dict[int, str] = {}

        def hear(ended: Mapping[int, Sample]) -> None:
            said = {
                row: self.framing.dialect.to_env(self.decode(sample.ids))
                for row, sample in ended.items()
            }
            texts.update(said)
            actions = map(parse, said.values())
            lookahead.ask([a.content for a in actions if a.kind is ActionKind.SEARCH])

        samples = session.turn(contexts, lambda row, sample: hear({row: sample}))
        hear({row: sample for row, sample in samples.items() if row not in texts})
        lookahead.wait()
        return samples, texts


class _Player:
    """One episode being played: the environment and the turns so far."""

    def __init__(self, env: SearchEnv, question: Question, group_id: int) -> None:
        self.unread: Sequence[int] = ()
        self.ended = False
        self._env = env
        self._group_id = group_id
        self._turns: list[Turn] = []
        self._opening, _ = env.reset(options={"question": question})

    def prompt_ids(self, framing: Framing) -> tuple[int, ...]:
        """What the agent reads first."""
        return framing.prompt_ids(self._env.episode.question, self._opening)

    def step(self, text: str, sample: Sample, framing: Framing) -> None:
        """Let the environment answer a sampled turn."""
        observation, terminated, truncated = "", False, False
        try:
            observation, _, terminated, truncated, _ = self._env.step(text)
        except RetrievalError:
            truncated = True  # the environment has recorded it as the episode's stop reason
        step = self._env.episode.steps[-1]
        self._turns.append(Turn(tuple(self.unread), sample.ids, sample.logprobs, step))
        self.ended = terminated or truncated
        last_id = sample.ids[-1] if sample.ids else None
        self.unread = () if self.ended else framing.observation_ids(observation, last_id)

    def trajectory(self) -> Trajectory:
        """The finished episode."""
        return Trajectory(self._env.episode, tuple(self._turns), self._group_id)


def demonstrate(
    question: Question,
    texts: Sequence[str],
    env: SearchEnv,
    framing: Framing,
    group_id: int = 0,
) -> Trajectory:
    """An expert's turns, played in the environment, as a trajectory to clone.

    Args:
        question: What is asked.
        texts: The expert's turns; those after the end of the episode are left out.
        env: The environment.
        framing: Encodes the turns; an end-of-text token is not added, a closing tag ends a turn.
        group_id: Of the trajectory.

    Returns:
        The trajectory; its log-probabilities are 0, for nobody sampled it.
    """
    player = _Player(env, question, group_id)
    player.unread = player.prompt_ids(framing)
    for text in texts:
        if player.ended:
            break
        ids = tuple(framing.tokenizer.encode(text, add_special_tokens=False))
        player.step(text, Sample(ids, (0.0,) * len(ids)), framing)
    return player.trajectory()


def usable(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Those whose retrieval did not fail: the only ones fit for training and for scores."""
    return [t for t in trajectories if not failed(t.episode)]


def failed(episode: Episode) -> bool:
    """Whether the episode ended because retrieval failed."""
    return episode.stop_reason is StopReason.RETRIEVAL_ERROR
