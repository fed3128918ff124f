"""Tags of other projects, put into the environment's and back."""

from agents.dialects import PLAIN, RESEARCH, boxed
from envs.actions import parse, render
from retrieval.types import Hit, Passage


def test_the_plain_dialect_changes_nothing() -> None:
    turn = "<think>x</think><answer>\\boxed{Paris}</answer>"
    assert PLAIN.to_env(turn) == turn and PLAIN.to_agent(turn) == turn


def test_boxed_takes_the_last_that_is_closed() -> None:
    assert boxed("no box") is None
    assert boxed(r"\boxed{a} \boxed{b}") == "b"
    assert boxed(r"\boxed{ \frac{1}{2} }") == r"\frac{1}{2}"
    assert boxed(r"\boxed{a} \boxed{b") == "a"
    assert boxed(r"\boxed{") is None
    assert boxed(r"\boxed{}") == ""


def test_research_answers_with_what_it_boxes() -> None:
    turn = r"<think>so</think><answer>The final answer is \[ \boxed{Paris} \]</answer>"
    assert parse(RESEARCH.to_env(turn)).content == "Paris"
    # Without a box the answer stands as it is.
    assert parse(RESEARCH.to_env("<answer>Paris</answer>")).content == "Paris"
    # A box in the reasoning is no answer, and a search stays a search.
    search = r"<think>\boxed{Rome}</think><search>Paris</search>"
    assert RESEARCH.to_env(search) == search


def test_research_reads_results() -> None:
    hits = [Hit(Passage("1", "T", "a </result> b <Result>"), 1.0, 1)]
    observation, _ = render(hits)
    shown = RESEARCH.to_agent(observation)
    assert shown == "<result>Doc 1(Title: T) a &lt;/result&gt; b &lt;Result&gt;</result>"
    assert shown.count("</result>") == 1
