import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.answers import exact_match, f1, normalize


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Beatles!", "beatles"),
        ("a cat, an owl and the dog", "cat owl and dog"),
        ("theatre", "theatre"),  # an article is a whole word
        ("U.S.A.", "usa"),
        ("3,500", "3500"),
        ("  \n\t ", ""),
        # Unicode: full-width letters, a ligature, a non-breaking space, a zero-width space.
        ("\uff30\uff41ris", "paris"),
        ("\ufb01nal\u00a0act", "final act"),
        ("Par\u200bis", "paris"),
        ("O\u2019Brien", "obrien"),
        ("O\u00b4Brien", "obrien"),
        ("\u201cDune\u201d \u2014 1965\u2026", "dune 1965"),
        ("e\u0301tude", "\u00e9tude"),  # composed, accent kept
        ("1\u20442", "12"),  # like "1/2"
        ("\u22125", "5"),  # like "-5"
        ("प्यार", "प्यार"),  # vowel signs and virama are no punctuation
        # Where SQuAD leaves nothing.
        ("A", "a"),
        ("The The", "the the"),
        ("?!", "?!"),
    ],
)
def test_normalize(text, expected):
    assert normalize(text) == expected


def squad_normalize(text):
    """The official SQuAD script, as the second implementation."""
    import re
    import string

    text = "".join(char for char in text.lower() if char not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_ascii_normalises_as_in_squad(text):
    expected = squad_normalize(text)
    if expected:
        assert normalize(text) == expected
    else:
        assert bool(normalize(text)) == bool(text.strip())


@pytest.mark.parametrize(
    ("prediction", "answers", "matches"),
    [
        ("the Eiffel Tower.", ["Eiffel Tower"], True),
        ("Eiffel", ["Eiffel Tower"], False),
        ("New York City", ["NYC", "New York City"], True),  # any alias
        ("1,234", ["1234"], True),
        ("twelve", ["12"], False),
        ("3.5", ["35"], True),  # SQuAD's price for dropping marks
        ("Yes", ["yes"], True),
        ("yes, it is", ["yes"], False),
        ("Perú", ["Peru"], False),
        ("red, green", ["red green"], True),
        ("green and red", ["red and green"], False),
        ("", ["Paris"], False),
        ("", [""], False),
        ("", ["the"], False),
        ("...", ["?"], False),
        ("A", ["A"], True),
        ("the", ["A"], False),
        ("x", [], False),
    ],
)
def test_exact_match(prediction, answers, matches):
    assert exact_match(prediction, answers) is matches


@pytest.mark.parametrize(
    ("prediction", "answers", "expected"),
    [
        ("the Eiffel Tower", ["Eiffel Tower"], 1.0),
        # One word of one shared with two: precision 1, recall 1/2: 2 * 1 / (1 + 2).
        ("Eiffel", ["the Eiffel Tower"], 2 / 3),
        # Best alias: against "new york" 2 * 2 / (3 + 2) = 0.8; against "nyc" 0.
        ("new york city", ["NYC", "New York"], 0.8),
        # Counts are respected: "x" shared once, not twice: 2 * 1 / (2 + 1).
        ("x x", ["x"], 2 / 3),
        # Order does not matter.
        ("green red", ["red green"], 1.0),
        ("blue", ["red green"], 0.0),
        # HotpotQA: all or nothing, on either side.
        ("yes", ["yes"], 1.0),
        ("yes it is", ["yes"], 0.0),
        ("no", ["no longer"], 0.0),
        ("noanswer", ["noanswer given"], 0.0),
        ("", ["Paris"], 0.0),
        ("", [""], 0.0),
        ("x", [], 0.0),
    ],
)
def test_f1(prediction, answers, expected):
    assert f1(prediction, answers) == pytest.approx(expected)


@given(st.text(max_size=20), st.lists(st.text(max_size=20), max_size=3))
def test_f1_is_1_where_exact_match_holds(prediction, answers):
    score = f1(prediction, answers)
    assert 0 <= score <= 1
    if exact_match(prediction, answers):
        assert score == 1
