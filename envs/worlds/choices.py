"""Turns a question into multiple choice."""

import random
from collections.abc import Iterable, Iterator

from .chains import Draft
from .expert import Plan
from .schema import Side

LETTERS = "ABCD"


def offer(drafts: Iterable[Draft], side: Side, rng: random.Random) -> Iterator[Draft]:
    """Each question with four options, shuffled.

    The wrong ones are objects of the same relation on the same side; none is an entity that the
    question passes through.
    """
    pools: dict[str, list[str]] = {}
    for draft in drafts:
        last = draft.plan.hops[-1]
        if last.relation.name not in pools:
            subjects = side.by_kind[last.relation.subject]
            objects = (subject.facts[last.relation.name] for subject in subjects)
            pools[last.relation.name] = list(dict.fromkeys(objects))
        seen = {last.object, *(hop.subject for hop in draft.plan.hops)}
        options = [last.object, *_others(pools[last.relation.name], seen, rng)]
        rng.shuffle(options)
        letter = LETTERS[options.index(last.object)]
        yield Draft(
            draft.text,
            Plan(draft.plan.hops, letter, f"That is {letter}."),
            (letter, last.object),
            dict(zip(LETTERS, options, strict=True)),
        )


def _others(pool: list[str], seen: set[str], rng: random.Random) -> list[str]:
    """Three values of the pool that are not in `seen`."""
    need = len(LETTERS) - 1
    # `seen` takes away at most its own size, so this sample always leaves enough.
    drawn = rng.sample(pool, min(len(pool), need + len(seen)))
    return [value for value in drawn if value not in seen][:need]
