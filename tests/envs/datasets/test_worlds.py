"""What both generated worlds promise."""

import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from envs.datasets import atlas, formulary
from envs.types import Dataset, Question
from envs.worlds import passages
from retrieval.corpus import Corpus
from retrieval.errors import InputError
from retrieval.retrievers import bm25s

ROOT = Path(__file__).resolve().parents[3]
WORLDS = [pytest.param(atlas, id="atlas"), pytest.param(formulary, id="formulary")]
SIZE = {"envs.datasets.atlas": "people", "envs.datasets.formulary": "drugs"}


def build(world: ModuleType, size: int = 60, **changes: Any) -> Dataset:
    return world.build(world.Config(**{SIZE[world.__name__]: size}, **changes))


def everything(world: ModuleType) -> dict[str, Any]:
    """The widest mixture of questions."""
    kinds = {"kinds": atlas.KINDS} if world is atlas else {}
    return {"hops": (1, 2, 3, 4), **kinds}


def fingerprint(dataset: Dataset) -> str:
    content = [
        [(q.id, q.text, q.answers, dict(q.options or {}), q.supporting_titles, q.dataset)]
        for q in dataset.questions
    ] + [[(p.id, p.title, p.text)] for p in dataset.passages or ()]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        pytest.param(atlas, "f99dd7dc2d15a2d8", id="atlas"),
        pytest.param(formulary, "6efcbc738b338ec7", id="formulary"),
    ],
)
def test_the_default_world_is_the_one_that_published_numbers_are_about(
    world: ModuleType, expected: str
) -> None:
    # A change here changes every number measured on the world: do it knowingly.
    assert fingerprint(world.build(world.Config(limit=500))) == expected


@pytest.mark.parametrize("world", WORLDS)
def test_the_same_bytes_in_any_process(world: ModuleType) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        f"from {world.__name__} import Config, build\n"
        f"dataset = build(Config({SIZE[world.__name__]}=40, split='all', hops=(1, 2, 3)))\n"
        "print(dataset.questions, dataset.passages)\n"
        "print([dataset.demonstrate(q, early) for q in dataset.questions for early in (0, 1)])\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] and len(outputs[0]) > 50_000


@pytest.mark.parametrize("world", WORLDS)
def test_another_seed_is_another_world(world: ModuleType) -> None:
    one, other = (build(world, seed=seed, limit=200) for seed in (0, 1))
    assert not {q.text for q in one.questions} & {q.text for q in other.questions}
    assert not {q.id for q in one.questions} & {q.id for q in other.questions}


@pytest.mark.parametrize("world", WORLDS)
def test_the_corpus_is_the_same_for_every_split_and_question_mix(world: ModuleType) -> None:
    corpora = [
        build(world, split=split, hops=hops, limit=10).passages
        for split, hops in (("train", (1,)), ("test", (2,)), ("all", (1, 2, 3)))
    ]
    assert corpora[0] == corpora[1] == corpora[2]


def words_of(questions: Any) -> set[str]:
    """The words that are only in names: all words of titles and answers."""
    joined = " ".join(
        " ".join([*q.supporting_titles, *q.answers, *(q.options or {}).values()]) for q in questions
    )
    return set(re.findall("[a-z]{4,}", joined.lower()))


# Words that names of both sides may have: they say what sort of thing it is.
SORTS = {
    *("letters", "gate", "river", "garden", "winter", "bridge", "mirror", "harvest"),
    *("college", "academy", "university", "hospital", "house", "library", "hall"),
    *("fever", "cough", "palsy", "rash", "ague", "colic", "wasting"),
    *("itch", "tremor", "cramp", "daze", "thirst", "numbness"),
    *("tick", "flea", "snail", "mite", "moth", "gland", "node", "duct", "follicle"),
    *("root", "leaf", "bark", "seed", "moss", "resin"),
}


@pytest.mark.parametrize("world", WORLDS)
def test_train_and_test_share_no_word_of_a_name(world: ModuleType) -> None:
    train, test = (
        words_of(build(world, split=split, **everything(world)).questions)
        for split in ("train", "test")
    )
    assert len(train) > 100 and len(test) > 100
    assert train & test <= SORTS


@pytest.mark.parametrize("world", WORLDS)
def test_no_passage_mentions_entities_of_both_sides(
    world: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passages, "DISTRACTOR_RATE", 1.0)
    train, test = (
        words_of(build(world, split=split, **everything(world)).questions) - SORTS
        for split in ("train", "test")
    )
    sides = Counter()
    for passage in build(world, limit=1).passages or ():
        words = set(re.findall("[a-z]{4,}", f"{passage.title} {passage.text}".lower()))
        assert not (words & train and words & test), passage
        sides[bool(words & train), bool(words & test)] += 1
    assert sides[True, False] > 200 and sides[False, True] > 200


@pytest.mark.parametrize("world", WORLDS)
def test_titles_are_unique_and_passages_short(world: ModuleType) -> None:
    made = world.build(world.Config(limit=1)).passages
    assert len({passage.title for passage in made}) == len(made)
    assert len({passage.id for passage in made}) == len(made)
    lengths = [len(f"{passage.title} {passage.text}".split()) for passage in made]
    assert max(lengths) <= 30 and sum(lengths) / len(lengths) < 24


@pytest.mark.parametrize("world", WORLDS)
def test_distractors_come_on_top_and_hold_no_answer(
    world: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passages, "DISTRACTOR_RATE", 0.0)
    plain = {p.title for p in build(world, limit=1).passages}
    monkeypatch.setattr(passages, "DISTRACTOR_RATE", 0.3)
    mixed = build(world, limit=1).passages
    extra = [passage for passage in mixed if passage.title not in plain]
    assert {passage.title for passage in mixed} >= plain
    assert 0.15 * len(plain) < len(extra) < 0.35 * len(plain)
    assert all(len(passage.text.split()) < 20 for passage in extra)


@pytest.mark.parametrize("world", WORLDS)
def test_questions_are_ample_distinct_and_answered_once(world: ModuleType) -> None:
    dataset = world.build(world.Config())
    assert len(dataset.questions) >= 2_000
    assert len({question.text for question in dataset.questions}) == len(dataset.questions)
    assert len({question.id for question in dataset.questions}) == len(dataset.questions)


@pytest.mark.parametrize("world", WORLDS)
def test_any_limit_is_balanced_between_hop_counts(world: ModuleType) -> None:
    for limit in (2, 100, 501):
        questions = build(world, limit=limit, hops=(1, 2, 3), size=100).questions
        counts = Counter(question.dataset for question in questions)
        assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("world", WORLDS)
def test_a_question_is_the_same_in_every_mixture(world: ModuleType) -> None:
    every = build(world, split="all", hops=(3, 2, 1), size=40).questions
    few = build(world, split="test", hops=(2,), size=40, limit=20).questions
    by_id = {question.id: question for question in every}
    assert all(by_id[question.id] == question for question in few)
    assert few[0].id == f"{few[0].dataset.partition('-')[0]}-0-test-2hop-000000"


@pytest.mark.parametrize("world", WORLDS)
def test_hops_are_the_supporting_titles(world: ModuleType) -> None:
    for question in build(world, hops=(1, 2, 3, 4), limit=200).questions:
        hops = int(re.search(r"-(\d)hop$", question.dataset)[1])
        assert len(set(question.supporting_titles)) == hops


def play(dataset: Dataset, question: Question) -> tuple[list[str], str]:
    """The expert's queries and answer."""
    *turns, last = dataset.demonstrate(question, False)
    queries = [re.search("<search>(.+)</search>", turn)[1] for turn in turns]
    return queries, re.search("<answer>(.+)</answer>", last)[1]


@pytest.mark.parametrize("world", WORLDS)
def test_the_expert_finds_the_evidence_at_rank_two_or_better(world: ModuleType) -> None:
    size = 300 if world is atlas else 200
    dataset = build(world, size=size, split="all", limit=1_200, **everything(world))
    engine = bm25s.build(bm25s.Config(), Corpus.of(dataset.passages))
    hops = found = first = 0
    for question in dataset.questions:
        queries, _ = play(dataset, question)
        for query, title, hits in zip(
            queries, question.supporting_titles, engine.search(queries, 2), strict=True
        ):
            # The query names what the hop is about: the question's entity, then what was found.
            assert title in query
            titles = [hit.passage.title for hit in hits]
            hops += 1
            found += title in titles
            first += titles[:1] == [title]
    assert hops > 2_000
    assert found / hops >= 0.97
    assert first / hops >= 0.9


@pytest.mark.parametrize("world", WORLDS)
def test_each_passage_of_the_chain_holds_what_the_next_step_needs(world: ModuleType) -> None:
    dataset = build(world, size=100, hops=(1, 2, 3, 4), limit=800)
    texts = {passage.title: passage.text for passage in dataset.passages}
    for question in dataset.questions:
        answer = question.answers[-1]
        chain = [*question.supporting_titles, answer]
        for title, target in pairwise(chain):
            assert target in texts[title]


@pytest.mark.parametrize("world", WORLDS)
def test_one_hop_is_not_changed_by_stopping_early(world: ModuleType) -> None:
    dataset = build(world, hops=(1,), limit=50)
    for question in dataset.questions:
        assert dataset.demonstrate(question, True) == dataset.demonstrate(question, False)


@pytest.mark.parametrize("world", WORLDS)
def test_stopping_early_shares_every_byte_up_to_the_decision(world: ModuleType) -> None:
    dataset = build(world, hops=(2, 3, 4), limit=300)
    for question in dataset.questions:
        full = dataset.demonstrate(question, False)
        early = dataset.demonstrate(question, True)
        hops = len(question.supporting_titles)
        assert len(full) == hops + 1 and len(early) == hops
        assert early[:-1] == full[: hops - 1]
        thought, answer = early[-1].removesuffix("</answer>").split("</think>\n<answer>")
        assert full[hops - 1].startswith(f"{thought} I need ")
        # What was found so far: the entity that the next search would have been about.
        assert answer == question.supporting_titles[-1]
        assert answer not in question.answers


@pytest.mark.parametrize("world", WORLDS)
def test_the_expert_knows_only_its_own_questions(world: ModuleType) -> None:
    dataset = build(world, limit=5)
    with pytest.raises(InputError, match="'stray': the expert knows only"):
        dataset.demonstrate(Question("stray", "?", ("a",)), False)


@pytest.mark.parametrize("world", WORLDS)
def test_the_dataset_can_be_sent_to_another_process(world: ModuleType) -> None:
    dataset = build(world, limit=5)
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy == dataset
    assert copy.demonstrate(copy.questions[0], False)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 19}, "19 is too few; give at least 20"),
        ({"hops": ()}, "only 0 such questions"),
        ({"hops": (0, 1)}, r"hops \(0, 1\) must be distinct numbers from 1 to 4"),
        ({"hops": (5,)}, "from 1 to 4"),
        ({"hops": (2, 2)}, "distinct"),
        ({"limit": 1_000_000}, r"only \d+ such questions; lower limit \(1000000\), enlarge"),
    ],
)
def test_impossible_settings_are_refused(
    world: ModuleType, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        build(world, **changes)


@pytest.mark.parametrize("world", WORLDS)
def test_a_hundred_thousand_passages_take_seconds(world: ModuleType) -> None:
    start = time.perf_counter()
    dataset = build(world, size=22_000 if world is atlas else 13_000, limit=1_000)
    assert len(dataset.passages) > 100_000
    assert time.perf_counter() - start < 30
