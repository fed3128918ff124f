"""From entities to a corpus: one short passage per entity, and distractors."""

import random

from retrieval.types import Passage

from .schema import Entity, Schema, Side

# Distractor passages per entity that may have one. A change makes every world another world.
DISTRACTOR_RATE = 0.15


def corpus(schema: Schema, seed: int, sides: list[Side]) -> tuple[Passage, ...]:
    """The passages of the whole world, in an order that tells nothing.

    Args:
        schema: The kind of world.
        seed: Of the world.
        sides: All sides.
    """
    rng = random.Random(f"{schema.name}/{seed}/passages")
    texts = []
    for side in sides:
        texts += [(entity.name, describe(schema, entity, rng)) for entity in side.entities]
        texts += _distract(schema, side, DISTRACTOR_RATE, rng)
    rng.shuffle(texts)
    return tuple(
        Passage(f"{schema.name}-{seed}-{number:07d}", title, text)
        for number, (title, text) in enumerate(texts)
    )


def describe(schema: Schema, entity: Entity, rng: random.Random) -> str:
    """All facts of an entity, in words drawn by `rng`."""
    return " ".join(
        rng.choice(templates).format(name=entity.name, **entity.facts)
        for templates in schema.sentences[entity.kind]
    )


def _distract(schema: Schema, side: Side, rate: float, rng: random.Random) -> list[tuple[str, str]]:
    """Distractors of one side: at most one for an entity, titles and places of the same side."""
    subjects = [entity for entity in side.entities if entity.kind in schema.distractors]
    places = side.by_kind[schema.place]
    made = []
    for entity in rng.sample(subjects, round(rate * len(subjects))):
        title, text = rng.choice(schema.distractors[entity.kind])
        fields = {"name": entity.name, "place": rng.choice(places).name}
        made.append((title.format(**fields), text.format(**fields)))
    return made
