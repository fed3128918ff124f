"""What a reply answers, on written examples."""

import pytest

from agents.replies import final_answer, first_sentence, how_to_answer, shown
from envs.types import Question
from retrieval.types import Passage

ANSWERS = {
    "Paris": "Paris",
    "  Paris.  \nBecause it is.": "Paris",
    "**Paris**": "Paris",
    "": "",
    " \n ": "",
    "The answer is Paris.": "Paris",
    "The answer is: Paris": "Paris",
    "Answer: Paris": "Paris",
    "Answer : Paris": "Paris",
    "So the answer is: 1912.\nI am sure.": "1912",
    "The answer is Rome. No, the answer is Paris.": "Paris",
    "The final answer is \\boxed{Paris}": "Paris",
    "\\boxed{Rome} or rather \\boxed{f(x) = {1}}": "f(x) = {1}",
    "\\boxed{Rome} and \\boxed{never closed": "Rome",
    "answering is hard": "answering is hard",
    "He said: no": "He said: no",
    "The answer is": "",
    "In conclusion: Paris": "Paris",
}


@pytest.mark.parametrize(("reply", "answer"), ANSWERS.items())
def test_final_answer(reply: str, answer: str) -> None:
    assert final_answer(reply) == answer


SENTENCES = {
    "One. Two.": "One.",
    "\n One two! Three": "One two!",
    "No end": "No end",
    "": "",
    "It is 3.5 km long. Then.": "It is 3.5 km long.",
    # A full stop before a name ends a sentence too: the rule knows no abbreviations.
    "Born in St. Louis.": "Born in St.",
    "The U.S. Army": "The U.S. Army",
    "First line.\nSecond line.": "First line.",
    "It was (so). Yes.": "It was (so).",
}


@pytest.mark.parametrize(("reply", "sentence"), SENTENCES.items())
def test_first_sentence(reply: str, sentence: str) -> None:
    assert first_sentence(reply) == sentence


def test_an_answer_has_the_shape_of_the_question() -> None:
    assert "few words" in how_to_answer(Question("o", "Where?", ("Paris",)))
    choice = Question("c", "Which?", ("A",), {"A": "x", "B": "y"})
    assert "letter" in how_to_answer(choice)


def test_passages_are_paragraphs() -> None:
    passages = [Passage("1", "T", "one"), Passage("2", "", "two")]
    assert shown(passages) == "Title: T\none\n\ntwo"
    assert shown([]) == ""
