"""What a kind of world consists of: relations, sentences, and the entities of one side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Train and test: no entity and no word of a name is on both sides.
SIDES = ("train", "test")


@dataclass(frozen=True, slots=True)
class Relation:
    """A functional relation: every subject of its kind has exactly one object.

    In all templates {0} is the subject; in `fact` {1} is the object; in `earlier` and `same` {0}
    and {1} are two subjects.

    Attributes:
        name: Key in `Entity.facts`.
        subject: Kind of the subject.
        object: Kind of the object; None when it is a value (a year) that no relation leads on from.
        query: What the expert searches for.
        fact: The sentence the expert states the fact with.
        phrases: The object as a noun phrase ("the birthplace of {0}"); the first is the expert's.
        questions: Questions for the object.
        earlier: Questions for the subject with the smaller value; empty where that means nothing.
        same: Questions whether two subjects share the object; empty where nobody would ask.
    """

    name: str
    subject: str
    object: str | None
    query: str
    fact: str
    phrases: tuple[str, ...]
    questions: tuple[str, ...]
    earlier: tuple[str, ...] = ()
    same: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing of a world.

    Attributes:
        kind: Such as "person".
        name: Unique in the whole world, so it serves as the key and as the passage's title.
        facts: Relation name (or a mere ornament's) -> object.
    """

    kind: str
    name: str
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Schema:
    """A kind of world.

    Attributes:
        name: Of the plug-in.
        relations: All relations.
        sentences: Kind -> the passage's sentences in order, each a choice of templates. Fields are
            `name` and the facts.
        distractors: Kind -> (title, text) templates of passages that mention an entity of that kind
            without its facts. Fields are `name` and `place`, another entity's name.
        place: The kind that distractors take `place` from.
    """

    name: str
    relations: tuple[Relation, ...]
    sentences: Mapping[str, tuple[tuple[str, ...], ...]]
    distractors: Mapping[str, tuple[tuple[str, str], ...]]
    place: str

    def paths(self, hops: int) -> list[tuple[Relation, ...]]:
        """All ways to follow `hops` relations, in the order of `relations`."""
        paths: list[tuple[Relation, ...]] = [(relation,) for relation in self.relations]
        for _ in range(hops - 1):
            paths = [
                (*path, relation)
                for path in paths
                for relation in self.relations
                if relation.subject == path[-1].object
            ]
        return paths


class Side:
    """The entities of one side, by kind and by name."""

    def __init__(self, name: str, entities: Sequence[Entity]) -> None:
        self.name = name
        self.entities = entities
        self.by_name = {entity.name: entity for entity in entities}
        self.by_kind: dict[str, list[Entity]] = {}
        for entity in entities:
            self.by_kind.setdefault(entity.kind, []).append(entity)
