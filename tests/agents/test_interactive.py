"""Typed questions: a real environment, scripted turns, and what a person sees of them."""

import io
import re
import signal
from collections.abc import Callable, Iterator

import pytest

from agents.chat import ModelError
from agents.interactive import PROMPT, converse, typed_question
from envs.limits import EnvLimits
from envs.rewards import weighted
from envs.search_env import SearchEnv
from envs.types import Episode, Question, Step
from retrieval.corpus import Corpus
from retrieval.errors import InputError, RetrievalError
from retrieval.retrievers import bm25s
from retrieval.types import Passage

PASSAGES = [
    Passage("d", "Dune", "Dune is a novel by Frank Herbert. " + "Sand and spice. " * 30),
    Passage("e", "Emma", "Emma is a novel\x1b[2J by Jane Austen."),
]
SEARCH = "<think>I must look.</think>\n<search>novel Dune</search>"
ANSWER = "<think>Found.</think><answer>Frank Herbert</answer>"


class Player:
    """Plays scripted turns in a real environment; keeps the episodes."""

    def __init__(self, *turns: str, max_turns: int = 4) -> None:
        self.turns = turns
        self.episodes: list[Episode] = []
        self.env = SearchEnv(
            questions=[Question("q", "?", ("x",))],
            retriever=bm25s.build(bm25s.Config(), Corpus.of(PASSAGES)),
            reward={"exact_match": 1.0},
            limits=EnvLimits(top_k=2, max_turns=max_turns),
        )

    def __call__(self, question: Question, on_step: Callable[[Step], None]) -> Episode:
        self.env.reset(options={"question": question})
        for turn in self.turns:
            *_, terminated, truncated, info = self.env.step(turn)
            on_step(info["step"])
            if terminated or truncated:
                break
        self.episodes.append(self.env.episode)
        return self.env.episode


def shown(play_one, *lines: str) -> str:
    out = io.StringIO()
    converse(play_one, lines, out)
    return out.getvalue()


def test_every_turn_is_shown_with_thought_query_passages_and_answer() -> None:
    text = shown(Player(SEARCH, ANSWER), "Who wrote Dune?\n")
    _, turns = text.split(PROMPT, 1)
    first, second = turns.split("[turn 2]\n")
    assert first.splitlines()[:3] == ["[turn 1]", "thought: I must look.", "search: novel Dune"]
    assert first.splitlines()[3].startswith("  1. Dune: Dune is a novel by Frank Herbert. Sand")
    assert first.splitlines()[3].endswith(" ...")
    assert second.splitlines()[:2] == ["thought: Found.", "answer: Frank Herbert"]
    assert max(map(len, turns.splitlines())) < 110


def test_a_turn_is_there_before_the_next_is_played() -> None:
    out = io.StringIO()
    seen: list[str] = []
    player = Player(SEARCH, ANSWER)

    def play_one(question: Question, on_step: Callable[[Step], None]) -> Episode:
        def watch(step: Step) -> None:
            on_step(step)
            seen.append(out.getvalue())

        return player(question, watch)

    converse(play_one, ["Who?"], out)
    assert "[turn 1]" in seen[0] and "[turn 2]" not in seen[0] and "[turn 2]" in seen[1]


def test_the_question_is_the_line_and_nothing_can_be_right_or_scored() -> None:
    player = Player("<answer></answer>")
    text = shown(player, "  Who wrote Dune? \n", "And Emma?\n")
    questions = [episode.question for episode in player.episodes]
    assert [q.text for q in questions] == ["Who wrote Dune?", "And Emma?"]
    assert len({q.id for q in questions}) == 2
    assert not re.search("reward|score|wrong|right", text)
    for reward in ("exact_match", "f1"):
        for answer in ("", " ", "the", "Frank Herbert"):
            env = SearchEnv(
                questions=questions,
                retriever=bm25s.build(bm25s.Config(), Corpus.of(PASSAGES)),
                reward=weighted({reward: 1.0}),
            )
            env.reset(options={"question": typed_question("Who?", 1)})
            assert env.step(f"<answer>{answer}</answer>")[1] == 0.0


@pytest.mark.parametrize("leave", ["", "\n", "  \n", "quit\n", " quit "])
def test_an_empty_line_and_quit_leave(leave) -> None:
    player = Player(ANSWER)
    shown(player, "One?\n", leave, "Never asked?\n")
    assert [episode.question.text for episode in player.episodes] == ["One?"]


def test_the_end_of_the_lines_leaves_on_a_line_of_its_own() -> None:
    player = Player(ANSWER)
    assert shown(player, "One?\n").endswith(f"{PROMPT}\n")
    assert len(player.episodes) == 1


@pytest.fixture
def _terminal() -> Iterator[None]:
    """Ctrl-C as Python takes it from a terminal; pytest's worker processes ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_terminal")
def test_ctrl_c_gives_one_question_up() -> None:
    player = Player(SEARCH, ANSWER)

    def play_one(question: Question, on_step: Callable[[Step], None]) -> Episode:
        def interrupt(step: Step) -> None:
            on_step(step)
            if question.text == "One?":
                signal.raise_signal(signal.SIGINT)

        return player(question, interrupt)

    text = shown(play_one, "One?\n", "Two?\n")
    one, two = text.split("(given up)")
    assert "[turn 1]" in one and "[turn 2]" not in one
    assert "answer: Frank Herbert" in two
    assert [episode.question.text for episode in player.episodes] == ["Two?"]


@pytest.mark.usefixtures("_terminal")
def test_ctrl_c_at_the_prompt_leaves() -> None:
    def lines() -> Iterator[str]:
        yield "One?\n"
        signal.raise_signal(signal.SIGINT)
        yield "Never asked?\n"

    player = Player(ANSWER)
    out = io.StringIO()
    converse(player, lines(), out)
    assert [episode.question.text for episode in player.episodes] == ["One?"]


@pytest.mark.parametrize(
    "error", [InputError("too long"), RetrievalError("too long"), ModelError("too long")]
)
def test_a_failure_costs_one_question(error) -> None:
    player = Player(ANSWER)

    def play_one(question: Question, on_step: Callable[[Step], None]) -> Episode:
        if question.text == "One?":
            raise error
        return player(question, on_step)

    text = shown(play_one, "One?\n", "Two?\n")
    assert "(no answer: too long)" in text and "answer: Frank Herbert" in text


def test_what_went_wrong_in_a_turn_is_told() -> None:
    text = shown(Player("just words", "<search>zzz</search>", SEARCH, max_turns=3), "Who?\n")
    assert "thought: just words\ninvalid: no complete tag pair" in text
    assert "search: zzz\n  (no passage shown)" in text
    assert "(not searched: this was the last turn)" in text
    assert "(no answer: the turns are used up)" in text


def test_neither_a_passage_nor_a_model_moves_the_cursor() -> None:
    text = shown(Player("<search>Emma\x1b[1A</search>", "<answer>\x07Jane\r</answer>"), "Who?\n")
    assert "Jane Austen" in text and "Emma" in text
    assert all(char.isprintable() or char == "\n" for char in text)
