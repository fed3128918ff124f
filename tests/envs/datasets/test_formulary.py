import re
from collections import Counter

from envs.datasets.formulary import Config, build
from envs.worlds.formulary import SCHEMA
from envs.worlds.formulary.facts import populate
from envs.worlds.questions import draw
from envs.worlds.schema import Side


def train_side() -> Side:
    return populate("train", 200, draw("formulary", 0, "train", "world"), set())


def test_the_first_questions_of_the_default_world() -> None:
    dataset = build(Config(limit=2))
    question = dataset.questions[1]
    assert question.prompt == (
        "Which drug is used against the disease that Pilbir trinman causes?\n"
        "A) Trenneldan\nB) Zentambrel\nC) Domozine\nD) Verdozine"
    )
    assert question.answers == ("D", "Verdozine")
    assert question.supporting_titles == ("Pilbir trinman", "Trilzar palsy")
    assert dataset.demonstrate is not None
    assert dataset.demonstrate(question, False) == (
        "<think>I need the disease caused by Pilbir trinman.</think>\n"
        "<search>Pilbir trinman disease</search>",
        "<think>Pilbir trinman causes Trilzar palsy. "
        "I need the drug against Trilzar palsy.</think>\n<search>Trilzar palsy treatment</search>",
        "<think>Trilzar palsy is treated with Verdozine. That is D.</think>\n<answer>D</answer>",
    )
    assert dataset.demonstrate(question, True)[1] == (
        "<think>Pilbir trinman causes Trilzar palsy.</think>\n<answer>Trilzar palsy</answer>"
    )


def test_drug_disease_and_microbe_belong_together() -> None:
    side = train_side()
    for disease in side.by_kind["disease"]:
        assert side.by_name[disease.facts["drug"]].facts["treats"] == disease.name
        assert side.by_name[disease.facts["cause"]].facts["disease"] == disease.name


def test_every_sentence_has_four_wordings_with_all_the_facts() -> None:
    for kind, sentences in SCHEMA.sentences.items():
        relations = {r.name for r in SCHEMA.relations if r.subject == kind}
        assert relations <= set(re.findall(r"\{(\w+)\}", str(sentences)))
        for templates in sentences:
            named = {frozenset(relations & set(re.findall(r"\{(\w+)\}", t))) for t in templates}
            assert len(templates) >= 4 and len(named) == 1


def test_options_are_four_of_one_sort_and_one_side() -> None:
    side = train_side()
    objects = {
        relation.name: {entity.facts[relation.name] for entity in side.by_kind[relation.subject]}
        for relation in SCHEMA.relations
    }
    for question in build(Config(hops=(1, 2, 3, 4), limit=800)).questions:
        options = set(question.options.values())
        assert list(question.options) == ["A", "B", "C", "D"] and len(options) == 4
        assert any(options <= pool for pool in objects.values())
        # An option that the question passes through could be ruled out without searching.
        assert not options & set(question.supporting_titles)


def test_the_letter_is_uniform() -> None:
    questions = build(Config(limit=2_000)).questions
    counts = Counter(question.answers[0] for question in questions)
    # Expected 500, standard deviation 19.
    assert set(counts) == set("ABCD")
    assert all(abs(count - 500) < 80 for count in counts.values())


def test_the_smallest_world_still_has_four_options() -> None:
    questions = build(Config(drugs=20, hops=(1, 2, 3, 4), split="all")).questions
    assert all(len(set(question.options.values())) == 4 for question in questions)
