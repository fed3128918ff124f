from envs.evidence_expert import EvidenceExpert
from envs.types import Question

MAGAZINES = Question(
    id="5a7a06935542990198eaf050",
    text="Which magazine was started first, Arthur's Magazine or First for Women?",
    answers=("Arthur's Magazine",),
    supporting_titles=("First for Women", "Arthur's Magazine"),
)
FESTIVAL = Question(
    id="festival",
    text="Where was the festival of Billy McFarland supposed to take place?",
    answers=("Great Exuma",),
    supporting_titles=("Billy McFarland (entrepreneur)", "Fyre Festival"),
)


def test_titles_that_the_question_names_are_searched_for() -> None:
    assert EvidenceExpert(3)(MAGAZINES, False) == (
        "<think>I look for First for Women.</think>\n<search>First for Women</search>",
        "<think>I look for Arthur's Magazine.</think>\n<search>Arthur's Magazine</search>",
        "<think>The answer is Arthur's Magazine.</think>\n<answer>Arthur's Magazine</answer>",
    )


def test_a_question_that_names_no_title_is_searched_for_itself_first() -> None:
    first, *others, answer = EvidenceExpert(3)(FESTIVAL, False)
    assert first == f"<think>I begin with the question.</think>\n<search>{FESTIVAL.text}</search>"
    titles = FESTIVAL.supporting_titles
    assert others == [f"<think>I look for {t}.</think>\n<search>{t}</search>" for t in titles]
    assert answer == "<think>The answer is Great Exuma.</think>\n<answer>Great Exuma</answer>"


def test_the_answer_comes_however_few_searches_there_may_be() -> None:
    first, answer = EvidenceExpert(1)(FESTIVAL, False)
    assert first.endswith(f"<search>{FESTIVAL.text}</search>")
    assert answer.endswith("<answer>Great Exuma</answer>")


def test_one_title_that_is_not_named_is_not_searched_for() -> None:
    moon = Question("moon", "who walked on it first", ("Armstrong",), supporting_titles=("Apollo",))
    assert len(EvidenceExpert(3)(moon, False)) == 2


def test_without_known_evidence_the_first_words_of_the_question_are_searched_for() -> None:
    words = [f"w{i}" for i in range(40)]
    vignette = Question("long", " ".join(words), ("B", "iron"), {"A": "zinc", "B": "iron"})
    search, answer = EvidenceExpert(3)(vignette, True)
    assert search.endswith(f"<search>{' '.join(words[:20])}</search>")
    assert answer.endswith("<answer>B</answer>")
