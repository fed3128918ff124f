import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.options import option_letter

OPTIONS = {"A": "Aspirin", "B": "Vitamin C", "C": "C. difficile toxin", "D": "B-cell lymphoma"}


@pytest.mark.parametrize(
    ("prediction", "letter"),
    [
        ("B", "B"),
        ("b", "B"),
        (" (B) ", "B"),
        ("B)", "B"),
        ("B.", "B"),
        ("**B**", "B"),
        ("\uff22", "B"),  # full-width
        ("option B", "B"),
        ("Option (B).", "B"),
        ("Answer: B", "B"),
        ("The answer is B", "B"),
        ("the correct answer is: (B)", "B"),
        ("The best option is option B.", "B"),
        ("Vitamin C", "B"),
        ("the vitamin c.", "B"),
        ("The answer is vitamin C", "B"),
        ("B. Vitamin C", "B"),
        ("B: vitamin C", "B"),
        ("(B) Vitamin C", "B"),
        ("B - Vitamin C", "B"),
        ("The answer is (B) Vitamin C.", "B"),
        ("B because of the rash", "B"),
        # A text that looks like a letter and a text.
        ("C. difficile toxin", "C"),
        ("C. C. difficile toxin", "C"),
        ("B-cell lymphoma", "D"),
        # Conflict, more than one, none.
        ("B. Aspirin", None),
        ("A. Vitamin C", None),  # "A" is a letter here, not an article
        ("A or B", None),
        ("A, B", None),
        ("A B C D", None),
        ("A. Aspirin B. Vitamin C C. C. difficile toxin D. B-cell lymphoma", None),
        ("A) Aspirin\nB) Vitamin C", None),
        ("Aspirin or vitamin C", None),
        ("not B", None),
        ("E", None),
        ("1", None),
        ("", None),
        ("the answer is", None),
        ("and", None),
    ],
)
def test_option_letter(prediction, letter):
    assert option_letter(prediction, OPTIONS) == letter


def test_a_letter_that_is_another_options_text_names_none():
    blood_groups = {"A": "O", "B": "A", "C": "AB"}
    assert option_letter("A", blood_groups) is None
    assert option_letter("A. O", blood_groups) == "A"
    assert option_letter("AB", blood_groups) == "C"


def test_a_text_may_begin_with_a_letter_and_a_mark():
    moulds = {"A": "C. albicans", "B": "fumigatus", "C": "A. fumigatus"}
    assert option_letter("A. fumigatus", moulds) == "C"
    assert option_letter("B. fumigatus", moulds) == "B"
    assert option_letter("C. A. fumigatus", moulds) == "C"


def test_a_text_that_two_options_share_names_none():
    assert option_letter("none", {"A": "None", "B": "none."}) is None
    assert option_letter("A. None", {"A": "None", "B": "none."}) == "A"


@given(st.text(max_size=40))
def test_any_prediction_is_one_option_or_none(prediction):
    assert option_letter(prediction, OPTIONS) in (None, *OPTIONS)
