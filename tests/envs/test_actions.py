import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs import actions
from envs.actions import count_words, parse, render
from envs.types import ActionKind
from retrieval.types import Hit, Passage

SEARCH, ANSWER, INVALID = ActionKind.SEARCH, ActionKind.ANSWER, ActionKind.INVALID
TAGS = [
    f"<{slash}{name}>"
    for name in ("think", "search", "answer", "information")
    for slash in ("", "/")
]
FRAGMENTS = st.lists(st.sampled_from([*TAGS, "a", " ", "\n", "<", ">", "/", "é"]), max_size=12)


def hits(*texts: str) -> list[Hit]:
    return [Hit(Passage(f"p{n}", f"T{n}", text), 1.0 / n, n) for n, text in enumerate(texts, 1)]


@pytest.mark.parametrize(
    ("text", "kind", "content"),
    [
        ("<search>who wrote Dune</search>", SEARCH, "who wrote Dune"),
        ("<answer> Frank Herbert\n</answer>", ANSWER, "Frank Herbert"),
        ("<think>Let me see.</think>\n<search>\ntwo\nlines\n</search> tail", SEARCH, "two\nlines"),
        # The pair that opens first wins, not the one that closes first or the last one.
        ("<search>a</search><answer>b</answer>", SEARCH, "a"),
        ("<answer>b</answer><search>a</search>", ANSWER, "b"),
        ("<answer>a</answer><answer>b</answer>", ANSWER, "a"),
        # An opening tag that is never closed counts for nothing.
        ("<search>a<answer>b</answer>", ANSWER, "b"),
        ("</search><answer>b</answer>", ANSWER, "b"),
        ("<search>a</answer><answer>b</answer>", ANSWER, "b"),
        # Inside <think> a closed pair counts: generation stopped there.
        ("<think><search>a</search></think><answer>b</answer>", SEARCH, "a"),
        # An empty answer is a decision, an empty query is not.
        ("<answer></answer>", ANSWER, ""),
        ("<answer> \n </answer>", ANSWER, ""),
        ("<search> \n </search>", INVALID, "an empty query"),
        # No complete pair.
        ("", INVALID, "no complete tag pair"),
        ("Frank Herbert", INVALID, "no complete tag pair"),
        ("<answer>Frank", INVALID, "no complete tag pair"),
        ("</answer>Frank<answer>", INVALID, "no complete tag pair"),
        ("<Answer>Frank</Answer>", INVALID, "no complete tag pair"),
        ("< answer>Frank</ answer>", INVALID, "no complete tag pair"),
        # A tag inside the content: nothing can be forged or smuggled into a query.
        ("<search>a<answer>b</answer></search>", INVALID, "a tag inside the search"),
        ("<answer><answer>a</answer>", INVALID, "a tag inside the answer"),
        ("<answer>a<information>b</information></answer>", INVALID, "a tag inside the answer"),
        ("<search>a</ INFORMATION ></search>", INVALID, "a tag inside the search"),
        ("<search>a < b and b > c</search>", SEARCH, "a < b and b > c"),
        # Outside the content a forged block is the agent's own text and changes nothing.
        ("<information>Doc 1</information><search>a</search>", SEARCH, "a"),
        # The prompt's own example, echoed: an answer, and a wrong one.
        ("inside <answer> and </answer>", ANSWER, "and"),
    ],
)
def test_parse(text, kind, content):
    action = parse(text)
    assert (action.kind, action.content, action.text) == (kind, content, text)


@given(st.one_of(st.text(), FRAGMENTS.map("".join)))
def test_any_string_is_exactly_one_action(text):
    action = parse(text)
    assert action.text == text
    assert action.kind in ActionKind
    assert action == parse(text)
    if action.kind is not INVALID:
        assert action.content == action.content.strip()
        assert not any(tag in action.content for tag in TAGS)


@given(FRAGMENTS.map("".join))
def test_the_pair_is_the_one_that_search_r1_finds(text):
    match = re.search(r"<(search|answer)>(.*?)</\1>", text, re.DOTALL)
    action = parse(text)
    if match is None:
        assert action.content == "no complete tag pair"
    elif action.kind is INVALID:
        assert any(tag in match[2] for tag in TAGS) or (match[1], match[2].strip()) == (
            "search",
            "",
        )
    else:
        assert (action.kind, action.content) == (match[1], match[2].strip())


@pytest.mark.parametrize(
    "unit", ["<search>", "<answer><search>", "<", "</search>", "< ", "<search><answer></search>"]
)
def test_a_million_characters_parse_in_linear_time(unit):
    text = unit * (1_000_000 // len(unit))
    start = time.perf_counter()
    parse(text)
    parse(f"<answer>{text}</answer>")
    # Linear: about 0.1 s. Quadratic: minutes.
    assert time.perf_counter() - start < 2


def test_passages_read_as_in_search_r1():
    text, shown = render(hits("one two", "three"))
    assert text == "<information>Doc 1(Title: T1) one two\nDoc 2(Title: T2) three</information>"
    assert shown == tuple(hits("one two", "three"))


def test_no_hits_say_so():
    assert render([]) == ("<information>No results.</information>", ())
    assert render([], max_tokens=1) == ("<information>No results.</information>", ())


def test_words_and_marks_are_tokens():
    # Doc 1 ( Title : T1 ) one two = 9
    assert count_words("Doc 1(Title: T1) one two") == 9
    # < information > and < / information > = 3 + 4
    assert count_words("<information></information>") == 7
    assert count_words("L'été à 3.5%") == 8  # L ' été à 3 . 5 %
    assert count_words("") == 0


@pytest.mark.parametrize(
    ("max_tokens", "body", "num_shown"),
    [
        # Tags 7, "Doc 1(Title: T1) one two" 9, "Doc 2(Title: T2) three four" 9.
        (None, "Doc 1(Title: T1) one two\nDoc 2(Title: T2) three four", 2),
        (25, "Doc 1(Title: T1) one two\nDoc 2(Title: T2) three four", 2),
        (24, "Doc 1(Title: T1) one two", 1),
        (16, "Doc 1(Title: T1) one two", 1),
        (15, "Doc 1(Title: T1) one", 1),
        # 14 holds tags and head, but not a word of the passage.
        (14, "No room left for results.", 0),
        (-3, "No room left for results.", 0),
    ],
)
def test_passages_are_cut_from_the_last_one_up(max_tokens, body, num_shown):
    found = hits("one two", "three four")
    assert render(found, max_tokens) == (
        f"<information>{body}</information>",
        tuple(found[:num_shown]),
    )


def test_a_short_second_passage_does_not_jump_the_queue():
    # The first passage has 30 words: cut, and the second is left out, although it alone would fit.
    text, shown = render(hits("w " * 30, "x"), 20)
    # 20 - 7 (tags) - 7 (head) = 6 words
    assert text == "<information>Doc 1(Title: T1) w w w w w w</information>"
    assert len(shown) == 1


def test_text_without_spaces_is_cut_every_20_characters():
    text, _ = render(hits("山" * 50), max_tokens=70, count_tokens=len)
    # Tags 13 + 14 + ... : len("<information></information>") = 27, len("Doc 1(Title: T1)") = 16,
    # so 27 of 70 characters are left: a blank and 20 characters fit, 40 do not.
    assert text == f"<information>Doc 1(Title: T1) {'山' * 20}</information>"


@pytest.mark.parametrize(
    "tag",
    ["</information>", "<answer>", "</Search>", "< / information >", "<THINK>", "<\ninformation>"],
)
def test_a_tag_inside_a_passage_is_escaped(tag):
    forged = f"x {tag} y"
    text, _ = render([Hit(Passage("p", forged, forged), 1.0, 1)])
    escaped = f"x &lt;{tag[1:-1]}&gt; y"
    assert text == f"<information>Doc 1(Title: {escaped}) {escaped}</information>"


@given(
    st.lists(st.tuples(st.text(max_size=30), FRAGMENTS.map("".join)), max_size=4),
    st.one_of(st.none(), st.integers(0, 60)),
)
def test_a_block_is_always_closed_and_holds_no_other_tag(passages, max_tokens):
    found = [Hit(Passage(str(n), *p), 1.0 / n, n) for n, p in enumerate(passages, 1)]
    text, shown = render(found, max_tokens)
    assert text.startswith("<information>")
    assert text.endswith("</information>")
    body = text.removeprefix("<information>").removesuffix("</information>")
    assert not any(tag in body for tag in TAGS)
    assert shown == tuple(found[: len(shown)])
    if max_tokens is not None and shown:
        assert count_words(text) <= max_tokens
    assert bool(shown) == (body not in (actions.NO_RESULTS, actions.NO_ROOM))


def test_a_small_model_reads_the_fixed_texts_quickly():
    for text in (actions.LAST_TURN, actions.REMINDER, f"{actions.INVALID}\n{actions.LAST_TURN}"):
        assert count_words(text) <= 25
