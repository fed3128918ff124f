"""Questions over a world: chains of relations, comparisons, yes/no; each with the expert's plan."""

import random
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise

from .expert import Hop, Plan
from .schema import Entity, Relation, Schema, Side


@dataclass(frozen=True, slots=True)
class Draft:
    """A question before it has an id.

    Attributes:
        text: The question.
        plan: How to answer it.
        answers: As in `Question`.
        options: As in `Question`.
    """

    text: str
    plan: Plan
    answers: tuple[str, ...]
    options: Mapping[str, str] | None = None


def chains(schema: Schema, side: Side, hops: int, rng: random.Random) -> Iterator[Draft]:
    """Questions that follow `hops` relations from an entity, lazily, in random order."""
    paths = [path for path in schema.paths(hops) if side.by_kind.get(path[0].subject)]
    ends = list(accumulate(len(side.by_kind[path[0].subject]) for path in paths))
    for index in shuffled(ends[-1] if ends else 0, rng):
        block = bisect_right(ends, index)
        path = paths[block]
        start = side.by_kind[path[0].subject][index - ends[block]]  # counts back from the end
        walk = _walk(side, start, path)
        if walk is not None:
            answer = walk[-1].object
            yield Draft(_ask(start, path, rng), Plan(walk, answer), (answer,))


def comparisons(schema: Schema, side: Side, rng: random.Random) -> Iterator[Draft]:
    """Questions which of two entities has the earlier year; both orders of the answer occur."""
    drafts = []
    for relation in schema.relations:
        for left, right in _neighbours(side, relation, rng) if relation.earlier else ():
            years = left.facts[relation.name], right.facts[relation.name]
            if years[0] != years[1]:
                first = left if int(years[0]) < int(years[1]) else right
                plan = _both(relation, left, right, first.name, f"{first.name} is earlier.")
                text = rng.choice(relation.earlier).format(left.name, right.name)
                drafts.append(Draft(text, plan, (first.name,)))
    rng.shuffle(drafts)
    yield from drafts


def yes_no(schema: Schema, side: Side, rng: random.Random) -> Iterator[Draft]:
    """Questions whether two entities share an object; as many yes as no, in every relation."""
    drafts = []
    for relation in schema.relations:
        if not relation.same:
            continue
        entities = _neighbours(side, relation, rng)
        no = [pair for pair in entities if not _share(relation, *pair)]
        yes = _sharing(side, relation, rng)
        for (one, other), answer in [
            *((pair, "yes") for pair in yes[: len(no)]),
            *((pair, "no") for pair in no[: len(yes)]),
        ]:
            text = rng.choice(relation.same).format(one.name, other.name)
            conclusion = "They are the same." if answer == "yes" else "They differ."
            plan = _both(relation, one, other, answer, conclusion)
            drafts.append(Draft(text, plan, (answer,)))
    rng.shuffle(drafts)
    halves = [[draft for draft in drafts if draft.plan.answer == word] for word in ("yes", "no")]
    for pair in zip(*halves, strict=True):
        yield from rng.sample(pair, 2)


def shuffled(count: int, rng: random.Random) -> Iterator[int]:
    """0..count-1 in random order; the cost is what is taken, not `count`."""
    moved: dict[int, int] = {}  # Fisher-Yates, keeping only the cells that were swapped
    for last in range(count - 1, -1, -1):
        pick = rng.randrange(last + 1)
        value = moved.get(pick, pick)
        moved[pick] = moved.pop(last, last)
        yield value


def _walk(side: Side, start: Entity, path: tuple[Relation, ...]) -> tuple[Hop, ...] | None:
    """The hops along a path; None when it comes back to an entity, as the answer would be given."""
    hops = []
    seen = {start.name}
    subject = start.name
    for relation in path:
        target = side.by_name[subject].facts[relation.name]
        if target in seen:
            return None
        seen.add(target)
        hops.append(Hop(relation, subject, target))
        subject = target
    return tuple(hops)


def _ask(start: Entity, path: tuple[Relation, ...], rng: random.Random) -> str:
    phrase = start.name
    for relation in path[:-1]:
        phrase = rng.choice(relation.phrases).format(phrase)
    return rng.choice(path[-1].questions).format(phrase)


def _both(relation: Relation, left: Entity, right: Entity, answer: str, conclusion: str) -> Plan:
    hops = tuple(Hop(relation, each.name, each.facts[relation.name]) for each in (left, right))
    return Plan(hops, answer, conclusion)


def _neighbours(side: Side, relation: Relation, rng: random.Random) -> list[tuple[Entity, Entity]]:
    entities = list(side.by_kind.get(relation.subject, ()))
    rng.shuffle(entities)
    return list(pairwise(entities))


def _share(relation: Relation, one: Entity, other: Entity) -> bool:
    return one.facts[relation.name] == other.facts[relation.name]


def _sharing(side: Side, relation: Relation, rng: random.Random) -> list[tuple[Entity, Entity]]:
    groups: dict[str, list[Entity]] = {}
    for entity in side.by_kind.get(relation.subject, ()):
        groups.setdefault(entity.facts[relation.name], []).append(entity)
    pairs: list[tuple[Entity, Entity]] = []
    for group in groups.values():
        rng.shuffle(group)
        pairs += pairwise(group)
    rng.shuffle(pairs)
    return pairs
