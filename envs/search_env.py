"""SearchEnv: a question, a search engine, and one turn of text per step."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded

from retrieval.errors import InputError, RetrievalError
from retrieval.types import Hit, Retriever

from .actions import INVALID, LAST_TURN, OPTION_NAMED, REMINDER, parse, render
from .limits import EnvLimits
from .rewards import weighted
from .rules import SearchRules, Selected, content, named_option, select
from .spaces import FreeText
from .types import Action, ActionKind, Episode, Question, Reward, Step, StopReason

StepResult = tuple[str, float, bool, bool, dict[str, Any]]


# How far a search goes on for passages to take the place of those left out, in multiples of top_k.
_MAX_DEPTH = 16
# Begins the reason of an action that is invalid for this.
_NAMES = "a query that names option"


class SearchEnv(gymnasium.Env[str, str]):
    """Answer a question by searching: one turn of the agent is one `step`.

    The action is the turn's text, in the tags of `envs.actions`. What it does:

    * search: the observation is the `<information>` block of what was found.
    * answer: the episode ends, `terminated`, whether the answer is right or wrong.
    * neither, or both mixed up, or a query against the rules: the observation is a reminder; the
      turn is spent.

    The observation before the last turn ends with a request to answer. A last turn without an
    answer ends the episode, `truncated`; its search is not executed. The observation after the
    last turn is "". `info["step"]` of every step is its `Step`; `info["question"]` of a reset is
    the `Question`.

    A failed search raises `RetrievalError` out of `step`; the episode is over then, with that
    stop reason, its last turn unrewarded.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 (Gymnasium's way)

    def __init__(
        self,
        *,
        questions: Sequence[Question],
        retriever: Retriever,
        reward: Reward | Mapping[str, float],
        limits: EnvLimits | None = None,
        rules: SearchRules | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Set up the environment.

        Args:
            questions: What `reset` draws from, each equally likely.
            retriever: The search engine.
            reward: A reward term, or the weights of terms of `envs.rewards` by name. It is called
                once a turn, with the episode in which that turn's own reward is still 0.
            limits: What bounds an episode.
            rules: What bounds its searches, beside the rules that a question brings.
            render_mode: "ansi" for transcripts, or None.

        Raises:
            InputError: No question, or an unknown render mode or reward.
        """
        if not questions:
            raise InputError("questions: there are none; check the dataset's path and filters")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InputError(f"render_mode: unknown value {render_mode!r}; use 'ansi' or None")
        self.observation_space = FreeText()
        self.action_space = FreeText()
        self.render_mode = render_mode
        self._questions = questions
        self._retriever = retriever
        self._reward = weighted(reward) if isinstance(reward, Mapping) else reward
        self._limits = limits or EnvLimits()
        self._general_rules = rules or SearchRules()
        self._rules = self._general_rules
        self._episode: Episode | None = None
        self._last_turn = False
        self._used_tokens = 0
        self._shown: set[tuple[str, str]] = set()

    @property
    def episode(self) -> Episode:
        """The running episode, or the one that ended last."""
        if self._episode is None:
            raise ResetNeeded("SearchEnv: there is no episode yet; call reset() first")
        return self._episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode with `options["question"]`, or with one drawn uniformly."""
        super().reset(seed=seed)
        question = self._choose(options or {})
        self._rules = self._general_rules.of(question)
        self._episode = Episode(question)
        self._used_tokens = self._count(question.prompt)
        self._last_turn = self._limits.next_is_last(0, self._used_tokens)
        self._shown = set()
        observation = question.prompt
        if self._last_turn:
            observation += f"\n{LAST_TURN}"
        return observation, {"question": question}

    def step(self, action: str) -> StepResult:
        """Play one turn."""
        if self.episode.stop_reason is not None:
            raise ResetNeeded("SearchEnv: the episode has ended; call reset() first")
        if not isinstance(action, str):
            raise InputError(f"action: {type(action).__name__} given; give the turn's text, a str")
        parsed = self._ruled(parse(action))
        if parsed.kind is ActionKind.ANSWER:
            return self._end_turn(Step(parsed, (), "", 0.0), StopReason.ANSWERED)
        if self._last_turn:
            return self._end_turn(Step(parsed, (), "", 0.0), StopReason.TURN_LIMIT)
        return self._end_turn(self._respond(parsed))

    def render(self) -> str | None:
        """The transcript so far, if `render_mode` is "ansi"."""
        if self.render_mode is None:
            gymnasium.logger.warn("SearchEnv.render() does nothing without render_mode='ansi'")
            return None
        episode = self.episode
        lines = [f"Question: {episode.question.prompt}"]
        for number, step in enumerate(episode.steps, 1):
            lines.append(f"\n[turn {number}, reward {step.reward:g}]\n{step.action.text}")
            if step.observation:
                lines.append(step.observation)
        if episode.stop_reason is not None:
            lines.append(f"\n[{episode.stop_reason}, total reward {episode.reward:g}]")
        return "\n".join(lines)

    def _choose(self, options: dict[str, Any]) -> Question:
        if not options:
            return self._questions[int(self.np_random.integers(len(self._questions)))]
        question = options.get("question")
        if set(options) != {"question"} or not isinstance(question, Question):
            raise InputError(f"reset options: {options!r:.80}; give {{'question': Question(...)}}")
        return question

    def _count(self, text: str) -> int:
        """Tokens of a text; not counted where nothing depends on it."""
        return 0 if self._limits.max_context_tokens is None else self._limits.count_tokens(text)

    def _respond(self, action: Action) -> Step:
        """Observe the result of a turn that is not the last, and decide whether the next one is."""
        used = self._used_tokens + self._count(action.text)
        found, hits = Selected((), 0, 0), tuple[Hit, ...]()
        body = OPTION_NAMED if action.content.startswith(_NAMES) else REMINDER
        if action.kind is ActionKind.SEARCH:
            found = self._search(action)
            room = self._limits.room_after(used)
            body, hits = render(found.hits, room, self._limits.count_tokens)
        self._used_tokens = used + self._count(body)
        self._last_turn = self._limits.next_is_last(len(self.episode.steps) + 1, self._used_tokens)
        if self._last_turn:
            # The full reminder would offer a search.
            body = f"{INVALID if action.kind is ActionKind.INVALID else body}\n{LAST_TURN}"
        repeats = found.repeats + sum(content(hit) in self._shown for hit in hits)
        self._shown.update(map(content, hits))
        return Step(action, hits, body, 0.0, repeats, found.excluded)

    def _ruled(self, action: Action) -> Action:
        """The action, or an invalid one for a query that the rules forbid."""
        if action.kind is not ActionKind.SEARCH or not self._rules.strict_queries:
            return action
        letter = named_option(action.content, self.episode.question)
        if letter is None:
            return action
        return Action(ActionKind.INVALID, f"{_NAMES} {letter}", action.text)

    def _search(self, action: Action) -> Selected:
        """Search; where passages are left out, for more of them, until there are `top_k`."""
        top_k, rules = self._limits.top_k, self._rules
        most = _MAX_DEPTH * top_k + len(rules.excluded_ids) + len(self._shown)
        # First what `Rollout` has prefetched.
        k = top_k
        while True:
            hits = self._ask(action, k)
            selected = select(hits, top_k, rules, self._shown)
            if len(selected.hits) == top_k or len(hits) < k or k == most:
                return selected
            k = min(2 * k + selected.excluded, most)

    def _ask(self, action: Action, k: int) -> list[Hit]:
        """The engine's answer; if it fails, the episode is over."""
        try:
            answers = self._retriever.search([action.content], k)
            if len(answers) != 1:
                raise RetrievalError(f"retriever: {len(answers)} result lists for one query")
        except RetrievalError:
            failed = Step(action, (), "", 0.0)
            self._episode = replace(
                self.episode,
                steps=(*self.episode.steps, failed),
                stop_reason=StopReason.RETRIEVAL_ERROR,
            )
            raise
        return answers[0]

    def _end_turn(self, step: Step, stop_reason: StopReason | None = None) -> StepResult:
        """Score the turn and add it to the episode."""
        question, steps = self.episode.question, self.episode.steps
        reward = float(self._reward(Episode(question, (*steps, step), stop_reason)))
        step = replace(step, reward=reward)
        self._episode = Episode(question, (*steps, step), stop_reason)
        terminated = stop_reason is StopReason.ANSWERED
        truncated = stop_reason is StopReason.TURN_LIMIT
        return step.observation, reward, terminated, truncated, {"step": step}
