"""Model outputs written by hand, and the options that a careful reader finds named in each."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.options import named_options

DRUGS = {"A": "Warfarin", "B": "Aspirin", "C": "Vitamin K", "D": "Low-molecular-weight heparin"}
CLOSED = {"A": "yes", "B": "no", "C": "maybe"}
DIABETES = {"A": "Type 1 diabetes", "B": "Diabetes", "C": "Diabetes insipidus", "D": "Gout"}
DOSES = {"A": "5 mg", "B": "0.5 mg", "C": "15 mg", "D": "1,500 mg"}
COUNTS = {"A": "2", "B": "12", "C": "-2", "D": "20%"}
GERMS = {
    "A": "Escherichia coli",
    "B": "Clostridioides difficile",
    "C": "Group B streptococcus",
    "D": "None of the above",
}
TEN = {letter: f"stage {number}" for number, letter in enumerate("ABCDEFGHIJ", 1)}
NUMBERED = {"1": "Paris", "2": "Rome", "3": "Oslo"}

# (output, options, the letters named)
TABLE = [
    # A letter, alone or dressed.
    ("B", DRUGS, "B"),
    ("b", DRUGS, "B"),
    ("(B)", DRUGS, "B"),
    ("[B]", DRUGS, "B"),
    ("b)", DRUGS, "B"),
    ("B.", DRUGS, "B"),
    ("**B**", DRUGS, "B"),
    ("**(B)**.", DRUGS, "B"),
    ("`B`", DRUGS, "B"),
    ('"B"', DRUGS, "B"),
    ("\u201cB\u201d", DRUGS, "B"),
    ("$\\boxed{B}$", DRUGS, "B"),
    ("\\boxed{\\text{B}}", DRUGS, "B"),
    ("\uff08\uff22\uff09", DRUGS, "B"),  # full-width
    ("\n\n B \n", DRUGS, "B"),
    ("Option B", DRUGS, "B"),
    ("Choice (b).", DRUGS, "B"),
    ("I", TEN, "I"),
    ("2", NUMBERED, "2"),
    # A text.
    ("Aspirin", DRUGS, "B"),
    ("aspirin.", DRUGS, "B"),
    ("ASPIRIN", DRUGS, "B"),
    ("The vitamin K", DRUGS, "C"),
    ("low molecular weight heparin", DRUGS, "D"),
    ("*Low\u2011molecular\u2011weight heparin*", DRUGS, "D"),
    ("None of the above.", GERMS, "D"),
    ("Oslo", NUMBERED, "3"),
    # A letter with its text.
    ("B. Aspirin", DRUGS, "B"),
    ("B) aspirin", DRUGS, "B"),
    ("B: Aspirin", DRUGS, "B"),
    ("B \u2013 Aspirin", DRUGS, "B"),
    ("(B) Aspirin.", DRUGS, "B"),
    ("**B. Aspirin**", DRUGS, "B"),
    ("Option B: Aspirin", DRUGS, "B"),
    ("Aspirin (B)", DRUGS, "B"),
    ("Aspirin, option B", DRUGS, "B"),
    ("B) Aspirin is the best choice because it acts on platelets.", DRUGS, "B"),
    ("B) Give 300 mg at once.", DRUGS, "B"),
    ("3. Oslo", NUMBERED, "3"),
    # A claim.
    ("The answer is B", DRUGS, "B"),
    ("The answer is (B) because A is wrong", DRUGS, "B"),
    ("The answer is (B), since A is contraindicated.", DRUGS, "B"),
    ("answer is option d", DRUGS, "D"),
    ("Answer: C", DRUGS, "C"),
    ("**Answer:** C", DRUGS, "C"),
    ("ANSWER - c", DRUGS, "C"),
    ("Final answer:\n\nC", DRUGS, "C"),
    ("Ans: C", DRUGS, "C"),
    ("The answer is aspirin.", DRUGS, "B"),
    ("The correct answer is: B. Aspirin", DRUGS, "B"),
    ("The best option is B, aspirin.", DRUGS, "B"),
    ("The correct answer choice is therefore **(D)**.", DRUGS, "D"),
    ("The answer to this question is most likely vitamin K.", DRUGS, "C"),
    ("I would choose option C here.", DRUGS, "C"),
    ("I'd go with aspirin.", DRUGS, "B"),
    ("(B) is the correct answer.", DRUGS, "B"),
    ("Aspirin is the best choice, as warfarin takes days.", DRUGS, "B"),
    ("The answer is B. Warfarin is wrong because it takes days.", DRUGS, "B"),
    ("The answer is not A. The answer is B.", DRUGS, "B"),
    ("If the answer is A, INR rises. It does not. The answer is D.", DRUGS, "D"),
    ("The wrong answer is A; the right answer is C.", DRUGS, "C"),
    ("The answer is G.", TEN, "G"),
    ("The answer is 3.", NUMBERED, "3"),
    ("A. The correct answer is C.", DRUGS, "C"),  # claims first
    # Reasoning first.
    ("Warfarin takes days, and vitamin K reverses it. So the answer is C.", DRUGS, "C"),
    ("Let's think.\n1. She bleeds.\n2. INR is 9.\n\nTherefore, the answer is (C).", DRUGS, "C"),
    ("The INR is high.\nIt must be lowered.\nC", DRUGS, "C"),
    ("The INR is high.\n\nC) Vitamin K", DRUGS, "C"),
    ("She bleeds. Therefore, C.", DRUGS, "C"),
    ("She bleeds, so it must be vitamin K.", DRUGS, "C"),
    ("She bleeds and INR is 9. Vitamin K.", DRUGS, "C"),
    ("I think it's C.", DRUGS, "C"),
    ("Probably aspirin", DRUGS, "B"),
    ("B\n\nA is too slow and C reverses it.", DRUGS, "B"),
    ("B, because A is too slow.", DRUGS, "B"),
    ("B because A is too slow", DRUGS, "B"),
    ("A) Warfarin\nB) Aspirin\nC) Vitamin K\nAnswer: B", DRUGS, "B"),
    # More than one.
    ("A or B", DRUGS, "AB"),
    ("a/b", DRUGS, "AB"),
    ("(A) and (C)", DRUGS, "AC"),
    ("A, B, C, D", DRUGS, "ABCD"),
    ("A B C D", DRUGS, "ABCD"),
    ("A) Warfarin\nB) Aspirin\nC) Vitamin K\nD) Low-molecular-weight heparin", DRUGS, "ABCD"),
    ("Warfarin, aspirin or vitamin K", DRUGS, "ABC"),
    ("The answer is A. The answer is B.", DRUGS, "AB"),
    ("The answer is either A or B.", DRUGS, "AB"),
    ("The answer is B, or possibly C.", DRUGS, "BC"),
    ("Answer: A, B and D", DRUGS, "ABD"),
    ("B. Warfarin", DRUGS, "AB"),  # a letter with another's text
    ("The answer is B (warfarin).", DRUGS, "AB"),
    ("Warfarin (B)", DRUGS, "AB"),
    ("A: too slow. B: acts at once.", DRUGS, "AB"),
    ("A. Too slow.\nB. Acts at once.", DRUGS, "AB"),
    # None.
    ("", DRUGS, ""),
    ("...", DRUGS, ""),
    ("I don't know.", DRUGS, ""),
    ("I don't know.", TEN, ""),
    ("I think none of these helps.", TEN, ""),
    ("A patient with a high INR needs care.", DRUGS, ""),
    ("The answer is a drug that thins blood.", DRUGS, ""),
    ("The answer is", DRUGS, ""),
    ("E", DRUGS, ""),
    ("Ibuprofen", DRUGS, ""),
    ("not B", DRUGS, ""),
    ("The answer is not B.", DRUGS, ""),
    ("I don't think it is B.", DRUGS, ""),
    ("Neither A nor B is correct.", DRUGS, ""),
    ("B is wrong.", DRUGS, ""),
    ("Is the answer B?", DRUGS, ""),
    ("All options except B", DRUGS, ""),
    ("B cells are too few.", DRUGS, ""),
    ("Aspirin and clopidogrel", DRUGS, ""),
    ("The patient took aspirin in the morning and felt better.", DRUGS, ""),
    # yes, no, maybe
    ("yes", CLOSED, "A"),
    ("Yes.", CLOSED, "A"),
    ("Yes, because survival improved.", CLOSED, "A"),
    ("No.", CLOSED, "B"),
    ("No, it does not.", CLOSED, "B"),
    ("No it does not.", CLOSED, "B"),
    ("Maybe", CLOSED, "C"),
    ("The answer is maybe, as the trial was small.", CLOSED, "C"),
    ("C) maybe", CLOSED, "C"),
    ("B", CLOSED, "B"),
    ("Yes and no", CLOSED, "AB"),
    ("yes/no/maybe", CLOSED, "ABC"),
    ("A. No", CLOSED, "AB"),
    ("There is no difference between the groups.", CLOSED, ""),
    ("No difference was found.", CLOSED, ""),
    ("Survival improved. So the answer is yes.", CLOSED, "A"),
    # A text within another.
    ("type 1 diabetes", DIABETES, "A"),
    ("Diabetes", DIABETES, "B"),
    ("diabetes insipidus", DIABETES, "C"),
    ("The answer is diabetes insipidus.", DIABETES, "C"),
    ("The most likely diagnosis is type 1 diabetes.", DIABETES, "A"),
    ("type 2 diabetes", DIABETES, ""),
    ("The answer is gestational diabetes.", DIABETES, ""),
    ("The answer is diabetes mellitus.", DIABETES, ""),
    ("B. Type 1 diabetes", DIABETES, "AB"),
    # Numbers.
    ("5 mg", DOSES, "A"),
    ("0.5 mg", DOSES, "B"),
    ("The answer is 1500 mg.", DOSES, "D"),
    ("The answer is 2.5 mg.", DOSES, ""),
    ("A) 5 mg", DOSES, "A"),
    ("2", COUNTS, "A"),
    ("-2", COUNTS, "C"),
    ("12", COUNTS, "B"),
    ("20 %", COUNTS, "D"),
    ("The answer is 12.", COUNTS, "B"),
    ("The answer is 1.2.", COUNTS, ""),
    # Letters that are part of a name.
    ("The answer is C. difficile.", GERMS, ""),
    ("C. difficile", GERMS, ""),
    ("It is hepatitis B.", GERMS, ""),
    ("Group B streptococcus", GERMS, "C"),
    ("The answer is group B streptococcus.", GERMS, "C"),
    ("B. Clostridioides difficile", GERMS, "B"),
]


@pytest.mark.parametrize(("output", "options", "letters"), TABLE)
def test_the_options_named(output, options, letters):
    assert named_options(output, options) == set(letters)


def test_the_table_is_no_repetition():
    assert len({(output, tuple(options)) for output, options, _ in TABLE}) >= 150


@pytest.mark.parametrize(("output", "options", "letters"), TABLE)
def test_neither_the_options_order_nor_their_case_matters(output, options, letters):
    turned = {key.lower(): text.upper() for key, text in reversed(options.items())}
    assert named_options(output, turned) == set(letters.lower())


WARY = {"A": "Vitamin A", "B": "Vitamin B", "C": "A. niger", "D": "An abscess"}


@pytest.mark.parametrize(
    ("output", "letters"),
    [
        ("Vitamin A", "A"),
        ("vitamin b", "B"),
        ("vitamin", ""),
        ("A. niger", "C"),
        ("niger", ""),
        ("abscess", "D"),
        ("The answer is an abscess.", "D"),
        ("The answer is vitamin A.", "A"),
        ("A. Vitamin A", "A"),
        ("A. An abscess", "AD"),
    ],
)
def test_an_article_is_told_from_a_name(output, letters):
    assert named_options(output, WARY) == set(letters)


@pytest.mark.parametrize("first", DRUGS)
@pytest.mark.parametrize("second", DRUGS)
@pytest.mark.parametrize(
    "form",
    [
        "The answer is {}. The answer is {}.",
        "The answer is {}.\nFinal answer: {}",
        "\\boxed{{{}}} or rather \\boxed{{{}}}",
        "{} or {}",
        "({}) and ({})",
        "{} is correct, but {} is also correct.",
    ],
)
def test_two_claims_name_what_both_claim(form, first, second):
    assert named_options(form.format(first, second), DRUGS) == {first, second}
    text = named_options(form.format(DRUGS[first], DRUGS[second]), DRUGS)
    assert text == {first, second}
    # A letter and its own text are one claim, another's text makes it a tie.
    assert named_options(f"Answer: {first}) {DRUGS[second]}", DRUGS) == {first, second}


def test_a_quoted_passage_names_nothing():
    passage = "Aspirin was first sold in 1899. It is made from salicin. Willow bark holds salicin."
    assert named_options(passage, DRUGS) == set()
    assert named_options(f"{passage} Aspirin (from willow) is old.", DRUGS) == set()


@pytest.mark.parametrize(
    "unit",
    [
        "A, ",
        "A ",
        "the answer is ",
        "not the the the ",
        "option A option ",
        "if if A) ",
        "aspirin and ",
        "B. ",
        "))))",
        "the most likely ",
        "\n",
        "A\n",
        "a-",
        "1,",
        "1.",
        "a.",
        "\\boxed{",
        "is: : ",
        "so so ",
        "type 1 ",
    ],
)
def test_the_work_grows_with_the_length_and_not_with_its_square(unit):
    """A quadratic pattern would take minutes here, until the test run's time limit ends it."""
    text = (unit * (50_000 // len(unit) + 1))[:50_000]
    for end in ("x", " B cells", ""):
        assert named_options(text + end, DRUGS) <= set(DRUGS)


ANY_OPTIONS = st.fixed_dictionaries({letter: st.text(max_size=12) for letter in "ABCD"})


@given(st.text(max_size=60), ANY_OPTIONS)
@settings(max_examples=100)
def test_any_text_names_some_of_any_options(output, options):
    assert named_options(output, options) <= set(options)


@given(ANY_OPTIONS)
@settings(max_examples=100)
def test_an_options_own_text_names_it(options):
    for key, text in options.items():
        if text.strip() and text.strip().upper() not in options:
            assert key in named_options(text, options)


@given(st.lists(st.sampled_from([*DRUGS, *DRUGS.values(), "answer", "is", ":", ".", "\n", "not"])))
@settings(max_examples=100)
def test_nothing_is_named_that_does_not_stand_there(parts):
    output = " ".join(parts)
    standing = {key for key, text in DRUGS.items() if key in parts or text in parts}
    assert named_options(output, DRUGS) <= standing
