"""Options in other orders: what stays, what differs, and what is not to be touched."""

from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest

from envs.datasets import jsonl
from envs.shuffling import base_id, num_orders, shufflable, shuffled
from envs.types import Question
from retrieval.errors import InputError

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def ask(*texts: str, right: str = "A", identifier: str = "q") -> Question:
    options = dict(zip("ABCDEFGH", texts, strict=False))
    return Question(identifier, "Which?", (right, options[right], "an alias"), options)


FOUR = ask("one", "two", "three", "four", right="C")


def test_order_0_is_the_question_itself() -> None:
    assert shuffled(FOUR, 0) is FOUR


def test_the_right_text_stays_right_and_nothing_else_changes() -> None:
    for order in range(1, 24):
        question = shuffled(FOUR, order)
        letter, text, alias = question.answers
        assert question.options is not None
        assert question.options[letter] == text == "three" and alias == "an alias"
        assert list(question.options) == list("ABCD")
        assert sorted(question.options.values()) == ["four", "one", "three", "two"]
        assert question.text == FOUR.text


def test_all_permutations_come_once_before_one_comes_again() -> None:
    def texts(order: int) -> tuple[str, ...]:
        return tuple((shuffled(FOUR, order).options or {}).values())

    assert num_orders(FOUR) == 24
    seen = [texts(order) for order in range(24)]
    assert sorted(seen) == sorted(permutations(["one", "two", "three", "four"]))
    assert [texts(order) for order in range(24, 48)] == seen
    assert len({shuffled(FOUR, order).id for order in range(48)}) == 48


def test_an_order_is_a_function_of_id_and_number() -> None:
    # Written down once: another process, and another Python, must give the same.
    written = ["two three one four", "four two one three", "three four one two"]
    assert [" ".join((shuffled(FOUR, n).options or {}).values()) for n in (1, 2, 3)] == written
    firsts = {
        tuple((shuffled(ask(*"wxyz", identifier=f"q{n}"), 1).options or {}).values())
        for n in range(300)
    }
    assert len(firsts) == 23


def test_the_right_letter_is_spread_evenly() -> None:
    letters = Counter(
        shuffled(ask(*"wxyz", identifier=f"q{n}"), 1).answers[0] for n in range(2_300)
    )
    # Of the 23 other orders, 5 leave the first text first and 6 put it at each other place: 500
    # and 600 of 2,300, standard deviations 20 and 21.
    assert abs(letters["A"] - 500) < 100
    assert all(abs(letters[letter] - 600) < 105 for letter in "BCD")


def test_equal_texts_keep_the_right_one_apart_by_its_letter() -> None:
    question = ask("same", "same", "other", right="B")
    for order in range(6):
        changed = shuffled(question, order)
        assert (changed.options or {})[changed.answers[0]] == "same"


def test_ids_go_there_and_back() -> None:
    assert shuffled(FOUR, 7).id == "q#order7"
    assert base_id("q#order7") == base_id("q") == "q"
    assert base_id("a#order") == "a#order" and base_id("#order-1") == "#order-1"
    assert base_id("x#order2#order3") == "x#order2"


@pytest.mark.parametrize(
    ("last", "free"),
    [
        ("All of the above", 3),
        ("none of above.", 3),
        ("Any of the above", 3),
        ("Can be any of the above", 3),
        ("none of the above, as the aim is to limit side effects", 3),
        ("None", 3),
        ("Both.", 3),
        ("All of these", 3),
        ("all of the following", 3),
        ("ALL", 4),
        ("All motor branches", 4),
        ("Both mother and baby are safe", 4),
        ("94% or above.", 4),
        ("None of the offspring will be affected", 4),
    ],
)
def test_an_option_that_means_those_before_it_keeps_its_place(last: str, free: int) -> None:
    question = ask("one", "two", "three", last, right="D")
    assert num_orders(question) == {3: 6, 4: 24}[free]
    moved = any(list((shuffled(question, n).options or {}).values())[3] != last for n in range(24))
    assert moved == (free == 4)


def test_what_stands_behind_such_an_option_keeps_its_place_too() -> None:
    question = ask("one", "two", "Both of the above", "four", right="D")
    assert num_orders(question) == 2
    other = shuffled(question, 1)
    assert list((other.options or {}).values()) == ["two", "one", "Both of the above", "four"]
    assert other.answers[:2] == ("D", "four")


NAMES_OTHERS = (
    *("A and C", "Both A and B", "Both (A) & (C)", "a,c,d", "Both AB", "'B' & 'C'", "A/B"),
    *("A, B, and C", "Option 1 and 2", "1 and 2", "option B", "Only A", "B only", "A", "(b)"),
    *("Neither A nor B", "A and B are correct."),
)


@pytest.mark.parametrize("text", NAMES_OTHERS)
def test_an_option_that_names_others_leaves_the_question_as_it_is(text: str) -> None:
    question = ask("one", "two", "three", text)
    assert not shufflable(question) and num_orders(question) == 1
    assert shuffled(question, 5) is question


@pytest.mark.parametrize(
    "text",
    ["Cord", "Vitamins A and D", "AB", "4", "Hepatitis B only", "I and II", "I only", "D&E clinic"],
)
def test_letters_that_name_no_option_do_no_harm(text: str) -> None:
    assert num_orders(ask("one", "two", "three", text)) == 24


def test_without_two_options_there_is_nothing_to_shuffle() -> None:
    free = Question("q", "Who?", ("Ann",))
    assert not shufflable(free) and shuffled(free, 3) is free and num_orders(free) == 1
    assert not shufflable(ask("one", "All of the above"))


def test_a_negative_order_is_refused() -> None:
    with pytest.raises(InputError, match="order -1 must be 0 or more"):
        shuffled(FOUR, -1)


@pytest.mark.skipif(not DATA.exists(), reason=f"no shared data at {DATA}")
@pytest.mark.parametrize(
    ("file", "refused"),
    [
        ("medqa/medqa_us_test_4opt", 0.005),
        ("medmcqa/medmcqa_dev", 0.01),
        ("mmlu_med/mmlu_med_test", 0.005),
    ],
)
def test_nearly_every_real_question_can_be_shuffled(file: str, refused: float) -> None:
    questions = jsonl.build(jsonl.Config(str(DATA / f"{file}.jsonl"))).questions
    assert sum(not shufflable(question) for question in questions) <= refused * len(questions)
    for question in questions:
        changed = shuffled(question, 1)
        assert (changed.options or {})[changed.answers[0]] == question.answers[1]
        assert base_id(changed.id) == question.id
        if shufflable(question) and len(set((question.options or {}).values())) == 4:
            assert changed.options != question.options
