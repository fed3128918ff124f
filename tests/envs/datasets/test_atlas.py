import re
from collections import Counter
from typing import Any

import pytest

from envs.datasets.atlas import KINDS, Config, build
from envs.types import Question
from envs.worlds.atlas import SCHEMA
from envs.worlds.atlas.facts import populate
from envs.worlds.questions import draw
from envs.worlds.schema import Entity, Side
from retrieval.errors import InputError


@pytest.fixture(scope="module")
def side() -> Side:
    """The train side of the default world."""
    return populate("train", 300, draw("atlas", 0, "train", "world"), set())


def test_the_first_questions_of_the_default_world() -> None:
    dataset = build(Config(limit=4))
    first, second, third, _ = dataset.questions
    assert first == Question(
        id="atlas-0-train-1hop-000000",
        text="Who is the mayor of Brezar?",
        answers=("Zitu Bratu",),
        supporting_titles=("Brezar",),
        dataset="atlas-1hop",
    )
    assert second == Question(
        id="atlas-0-train-2hop-000000",
        text="What is the employer of the best friend of Trilsin Zunsel?",
        answers=("Trebras Hospital",),
        supporting_titles=("Trilsin Zunsel", "Rentro Gildu"),
        dataset="atlas-2hop",
    )
    assert third.id == "atlas-0-train-1hop-000001"
    texts = {passage.title: passage.text for passage in dataset.passages or ()}
    assert texts["Brezar"] == (
        "Chartered in 1123, Brezar is a town in the region of Tuntus. "
        "Its mayor is Zitu Bratu, and it is known for rope."
    )


def test_every_relation_is_functional_and_leads_to_an_entity_of_its_kind(side: Side) -> None:
    for relation in SCHEMA.relations:
        for entity in side.by_kind[relation.subject]:
            target = entity.facts[relation.name]
            if relation.object:
                assert side.by_name[target].kind == relation.object
            else:
                assert target not in side.by_name


def test_capitals_and_main_towns_lie_where_they_belong(side: Side) -> None:
    def facts(name: str) -> Any:
        return side.by_name[name].facts

    for region in side.by_kind["region"]:
        assert facts(region.facts["seat"])["region"] == region.name
    for country in side.by_kind["country"]:
        region = facts(country.facts["capital"])["region"]
        assert facts(region)["country"] == country.name


def test_names_have_near_duplicates(side: Side) -> None:
    people = [entity.name.split() for entity in side.by_kind["person"]]
    namesakes = Counter(last for _, last in people)
    assert len(people) == 300
    assert sum(count > 1 for count in namesakes.values()) > 50


@pytest.mark.parametrize("kind", sorted(SCHEMA.sentences))
def test_every_sentence_has_four_wordings_with_all_the_facts(kind: str, side: Side) -> None:
    entity: Entity = side.by_kind[kind][0]
    relations = [relation for relation in SCHEMA.relations if relation.subject == kind]
    for templates in SCHEMA.sentences[kind]:
        assert len(templates) >= 4
        fields = {frozenset(re.findall(r"\{(\w+)\}", each)) for each in templates}
        named = {frozenset(each & {r.name for r in relations}) for each in fields}
        assert len(named) == 1, "a wording leaves a fact out"
        assert all(each.format(name=entity.name, **entity.facts) for each in templates)
    mentioned = re.findall(r"\{(\w+)\}", str(SCHEMA.sentences[kind]))
    assert {relation.name for relation in relations} <= set(mentioned)


def test_comparisons_and_yes_no_take_two_searches_and_are_right(side: Side) -> None:
    dataset = build(Config(kinds=("comparison", "yes_no"), limit=600))
    relations = {r.name: r for r in SCHEMA.relations}
    for question in dataset.questions:
        one, other = (side.by_name[title] for title in question.supporting_titles)
        assert len(dataset.demonstrate(question, False)) == 3
        (relation,) = (
            relation
            for relation in relations.values()
            for template in (*relation.earlier, *relation.same)
            if template.format(one.name, other.name) == question.text
        )
        values = one.facts[relation.name], other.facts[relation.name]
        if question.dataset == "atlas-comparison":
            first = one if int(values[0]) < int(values[1]) else other
            assert question.answers == (first.name,)
        else:
            assert question.answers == ("yes" if values[0] == values[1] else "no",)


def test_yes_and_no_are_equally_often() -> None:
    questions = build(Config(kinds=("yes_no",), limit=500)).questions
    assert Counter(q.answers[0] for q in questions) == {"yes": 250, "no": 250}


def test_the_first_of_the_two_is_not_always_the_answer() -> None:
    questions = build(Config(kinds=("comparison",), limit=500)).questions
    first = sum(q.supporting_titles[0] == q.answers[0] for q in questions)
    assert 200 < first < 300


def test_kinds_and_hop_counts_are_equally_often() -> None:
    questions = build(Config(kinds=KINDS, hops=(1, 2), limit=400)).questions
    assert Counter(q.dataset for q in questions) == {
        "atlas-1hop": 100,
        "atlas-2hop": 100,
        "atlas-comparison": 100,
        "atlas-yes-no": 100,
    }


@pytest.mark.parametrize("kinds", [(), ("chains",), ("chain", "bridge")])
def test_unknown_kinds_are_refused(kinds: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="must be some of chain, comparison, yes_no"):
        build(Config(kinds=kinds))


def test_questions_keep_to_the_chosen_relations_and_passages_do_not() -> None:
    chosen = build(Config(relations=("born", "mayor"), hops=(1, 2)))
    # Two relations lead on from one another in two ways: town -> mayor -> town, and back.
    wordings = {r.name: r.phrases for r in SCHEMA.relations}
    others = [p for name in wordings if name not in ("born", "mayor") for p in wordings[name]]
    assert len(chosen.questions) > 500
    for question in chosen.questions:
        assert not any(phrase.replace("{0}", "") in question.text for phrase in others)
        assert len(question.supporting_titles) in (1, 2)
    assert chosen.passages == build(Config()).passages


def test_an_unknown_relation_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        InputError, match=r"unknown relations \['shoe'\]; known are born, birth_year"
    ):
        build(Config(relations=("born", "shoe")))
