"""The nouns of the environment: Question, Action, Step, Episode, Dataset."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from retrieval.types import Hit, Passage

# The answer that says "I do not know", and how an agent learns that it may give it.
ABSTENTION = "unknown"
_LEAVE = f"If you cannot find the answer, answer: {ABSTENTION}"


@dataclass(frozen=True, slots=True)
class Question:
    """One question with what is needed to grade an answer.

    Attributes:
        id: Unique within a dataset.
        text: The question, without options.
        answers: Accepted answers (aliases), at least one. With options, `answers[0]` is the letter
            of the right option and `answers[1]` its text.
        options: Letter -> text for multiple choice, else None.
        supporting_titles: Titles of the passages that hold the evidence; empty when unknown.
        dataset: The name of the set it comes from.
        source_ids: Ids of the passages that the question was made from; empty when unknown.
        rules: Rules of `envs.rules.RULES` that hold for it, whatever the environment's own.
        may_abstain: The agent is told that it may answer `ABSTENTION`.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    options: Mapping[str, str] | None = None
    supporting_titles: tuple[str, ...] = ()
    dataset: str = ""
    source_ids: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    may_abstain: bool = False

    @property
    def prompt(self) -> str:
        """The question as an agent reads it.

        The text, then one line per option ("A) ..."), then the leave to abstain.
        """
        lines = [f"{letter}) {text}" for letter, text in (self.options or {}).items()]
        leave = [_LEAVE] if self.may_abstain else []
        return "\n".join([self.text, *lines, *leave])


class ActionKind(StrEnum):
    """What an agent's turn asks for."""

    SEARCH = "search"  # a query for the retriever
    ANSWER = "answer"  # the final answer; ends the episode
    INVALID = "invalid"  # no complete tag pair, or a query against the rules; costs a turn


class StopReason(StrEnum):
    """Why an episode ended."""

    ANSWERED = "answered"  # an <answer> was given
    TURN_LIMIT = "turn_limit"  # the last turn gave no answer
    RETRIEVAL_ERROR = "retrieval_error"  # search failed: excluded from training, never scored


@dataclass(frozen=True, slots=True)
class Action:
    """One parsed turn.

    Attributes:
        kind: Search, answer or invalid.
        content: The query or the answer, stripped; for an invalid turn the reason.
        text: The turn exactly as the agent wrote it.
    """

    kind: ActionKind
    content: str
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of an episode.

    Attributes:
        action: What the agent did.
        hits: What the search found and the observation shows, best first; empty unless the action
            is an executed search.
        observation: The text the environment answered with; empty after the last turn.
        reward: The reward of this turn.
        repeats: How many of `hits` an earlier turn of this episode had shown; under the rule
            `novel_only`, how many were left out for that reason.
        excluded: How many passages were found but left out because their ids are excluded.
    """

    action: Action
    hits: tuple[Hit, ...]
    observation: str
    reward: float
    repeats: int = 0
    excluded: int = 0


@dataclass(frozen=True, slots=True)
class Episode:
    """A question and the turns taken so far.

    Attributes:
        question: What was asked.
        steps: The turns, in order.
        stop_reason: None while the episode runs.
    """

    question: Question
    steps: tuple[Step, ...] = ()
    stop_reason: StopReason | None = None

    @property
    def num_searches(self) -> int:
        """Executed searches (an invalid turn, or a search at the last turn, is none)."""
        return sum(bool(s.observation) and s.action.kind is ActionKind.SEARCH for s in self.steps)

    @property
    def num_invalid(self) -> int:
        """Turns without a valid action."""
        return sum(step.action.kind is ActionKind.INVALID for step in self.steps)

    @property
    def answer(self) -> str | None:
        """The final answer, or None when none was given."""
        if self.stop_reason is not StopReason.ANSWERED:
            return None
        return self.steps[-1].action.content

    @property
    def reward(self) -> float:
        """The sum over turns."""
        return sum(step.reward for step in self.steps)


class Reward(Protocol):
    """A reward term: called after every turn with the episode so far, that turn included.

    Its value is the reward of that turn. An outcome reward returns 0 while `stop_reason` is None.
    """

    def __call__(self, episode: Episode) -> float:
        """The reward of the episode's newest turn."""
        ...


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions, and for generated worlds the corpus and an expert.

    Attributes:
        questions: In a fixed order.
        passages: The world's own corpus; None when the corpus is a file given to the retriever.
        demonstrate: Expert play: question -> the texts of its turns, the last one an answer.
            `stop_early=True` leaves out the last hop and answers with what was found so far (the
            same as False where a question has one hop). None when no expert is known.
    """

    questions: Sequence[Question]
    passages: Sequence[Passage] | None = None
    demonstrate: Callable[[Question, bool], tuple[str, ...]] | None = None
