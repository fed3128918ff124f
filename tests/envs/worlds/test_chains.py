"""Questions over a world small enough to read: three towns in two regions, three people."""

import random
from collections import Counter

from envs.worlds.chains import Draft, chains, comparisons, shuffled, yes_no
from envs.worlds.expert import Expert
from envs.worlds.questions import Stratum, assemble
from envs.worlds.schema import Entity, Relation, Schema, Side

BORN = Relation(
    name="born",
    subject="person",
    object="town",
    query="{0} born",
    fact="{0} was born in {1}.",
    phrases=("the birthplace of {0}",),
    questions=("Where was {0} born?",),
    same=("Were {0} and {1} born in the same town?",),
)
YEAR = Relation(
    name="year",
    subject="person",
    object=None,
    query="{0} year",
    fact="{0} was born in {1}.",
    phrases=("the birth year of {0}",),
    questions=("When was {0} born?",),
    earlier=("Who was born earlier, {0} or {1}?",),
)
REGION = Relation(
    name="region",
    subject="town",
    object="region",
    query="{0} region",
    fact="{0} is in {1}.",
    phrases=("the region of {0}",),
    questions=("In which region is {0}?",),
)
SEAT = Relation(
    name="seat",
    subject="region",
    object="town",
    query="{0} seat",
    fact="The seat of {0} is {1}.",
    phrases=("the seat of {0}",),
    questions=("What is the seat of {0}?",),
)
SCHEMA = Schema("tiny", (BORN, YEAR, REGION, SEAT), sentences={}, distractors={}, place="town")
SIDE = Side(
    "train",
    [
        Entity("person", "Ada", {"born": "Ulm", "year": "1900"}),
        Entity("person", "Bob", {"born": "Ulm", "year": "1910"}),
        Entity("person", "Cyd", {"born": "Ems", "year": "1905"}),
        Entity("town", "Ulm", {"region": "North"}),
        Entity("town", "Ems", {"region": "North"}),
        Entity("town", "Bonn", {"region": "South"}),
        Entity("region", "North", {"seat": "Ulm"}),
        Entity("region", "South", {"seat": "Bonn"}),
    ],
)


def ask(hops: int) -> dict[str, Draft]:
    return {draft.text: draft for draft in chains(SCHEMA, SIDE, hops, random.Random(1))}


def test_one_hop_asks_every_relation_of_every_entity() -> None:
    answers = {text: draft.answers for text, draft in ask(1).items()}
    assert answers == {
        "Where was Ada born?": ("Ulm",),
        "Where was Bob born?": ("Ulm",),
        "Where was Cyd born?": ("Ems",),
        "When was Ada born?": ("1900",),
        "When was Bob born?": ("1910",),
        "When was Cyd born?": ("1905",),
        "In which region is Ulm?": ("North",),
        "In which region is Ems?": ("North",),
        "In which region is Bonn?": ("South",),
        "What is the seat of North?": ("Ulm",),
        "What is the seat of South?": ("Bonn",),
    }


def test_two_hops_leave_out_the_chains_that_come_back() -> None:
    # Ulm -> North -> Ulm and both region -> seat -> region chains return to where they began.
    answers = {text: draft.answers for text, draft in ask(2).items()}
    assert answers == {
        "In which region is the birthplace of Ada?": ("North",),
        "In which region is the birthplace of Bob?": ("North",),
        "In which region is the birthplace of Cyd?": ("North",),
        "What is the seat of the region of Ems?": ("Ulm",),
    }


def test_three_hops_go_through_each_entity_once() -> None:
    (draft,) = ask(3).values()
    assert draft.text == "What is the seat of the region of the birthplace of Cyd?"
    assert [(hop.subject, hop.object) for hop in draft.plan.hops] == [
        ("Cyd", "Ems"),
        ("Ems", "North"),
        ("North", "Ulm"),
    ]
    assert not ask(4)


def test_the_expert_states_each_fact_before_the_next_search() -> None:
    text = "In which region is the birthplace of Ada?"
    stratum = Stratum("tiny-2hop", "tiny-0-train-2hop", iter([ask(2)[text]]))
    dataset = assemble("tiny", [stratum], (), None)
    (question,) = dataset.questions
    assert question.id == "tiny-0-train-2hop-000000"
    assert question.dataset == "tiny-2hop"
    assert question.supporting_titles == ("Ada", "Ulm")
    assert isinstance(dataset.demonstrate, Expert)
    assert dataset.demonstrate(question, False) == (
        "<think>I need the birthplace of Ada.</think>\n<search>Ada born</search>",
        "<think>Ada was born in Ulm. I need the region of Ulm.</think>\n"
        "<search>Ulm region</search>",
        "<think>Ulm is in North.</think>\n<answer>North</answer>",
    )
    assert dataset.demonstrate(question, True) == (
        "<think>I need the birthplace of Ada.</think>\n<search>Ada born</search>",
        "<think>Ada was born in Ulm.</think>\n<answer>Ulm</answer>",
    )


def test_comparisons_name_the_one_with_the_smaller_year() -> None:
    years = {"Ada": 1900, "Bob": 1910, "Cyd": 1905}
    drafts = list(comparisons(SCHEMA, SIDE, random.Random(3)))
    assert len(drafts) == 2  # three people in a row have two neighbouring pairs
    for draft in drafts:
        pair = [hop.subject for hop in draft.plan.hops]
        assert draft.text == f"Who was born earlier, {pair[0]} or {pair[1]}?"
        assert draft.answers == (min(pair, key=years.__getitem__),)
        assert draft.plan.conclusion == f"{draft.answers[0]} is earlier."


def test_yes_no_is_balanced_and_right() -> None:
    drafts = list(yes_no(SCHEMA, SIDE, random.Random(0)))
    assert Counter(draft.answers for draft in drafts) == {("yes",): 1, ("no",): 1}
    for draft in drafts:
        one, other = draft.plan.hops
        assert draft.answers == ("yes" if one.object == other.object else "no",)


def test_shuffled_is_a_permutation_and_lazy() -> None:
    assert sorted(shuffled(1_000, random.Random(5))) == list(range(1_000))
    assert list(shuffled(0, random.Random(5))) == []
    first = shuffled(10**12, random.Random(5))
    assert len({next(first) for _ in range(100)}) == 100


def test_shuffled_is_uniform() -> None:
    # 6,000 draws of 6 permutations: each 1,000 times, standard deviation 29.
    rng = random.Random(9)
    counts = Counter(tuple(shuffled(3, rng)) for _ in range(6_000))
    assert len(counts) == 6
    assert all(abs(count - 1_000) < 150 for count in counts.values())
