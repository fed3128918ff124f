"""A generated world of people, works, institutions and places, with 1- to 4-hop questions.

Everything is fictional, so an answer can only come from searching. Train and test share no entity
and no word of a name. The passages are the whole world, whatever the split: one index serves both.

* chain questions follow 1 to 4 relations ("In which region is the birthplace of ...?");
* comparisons ("Who was born earlier, ... or ...?") and yes/no questions take two searches.

`Question.dataset` is "atlas-1hop" .. "atlas-4hop", "atlas-comparison" or "atlas-yes-no";
`supporting_titles` are the titles of the needed passages in the order of the searches.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from retrieval.errors import InputError

from ..types import Dataset
from ..worlds.atlas import SCHEMA
from ..worlds.atlas.facts import MIN_PEOPLE, populate
from ..worlds.chains import chains, comparisons, yes_no
from ..worlds.passages import corpus
from ..worlds.questions import Stratum, assemble, both_sides, check, draw, sides_of
from ..worlds.schema import Schema, Side

KINDS = ("chain", "comparison", "yes_no")


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of the world.

    Attributes:
        seed: Another seed, another world.
        people: People on each of the two sides; a side has about as many other entities, so the
            whole world has about 5 passages per unit. At least 20.
        split: "train", "test" or "all": which side the questions are about.
        hops: Hop counts of the chain questions, 1 to 4, equally often.
        kinds: Sorts of questions: "chain", "comparison", "yes_no"; each hop count and each of the
            other sorts is equally often.
        relations: The relations that questions are about, by name ("born", "mayor", ...: see
            `envs.worlds.atlas.relations`); empty for all. The passages tell every fact regardless.
        limit: Number of questions; null for all there are.
    """

    seed: int = 0
    people: int = 300
    split: str = "train"
    hops: tuple[int, ...] = (1, 2)
    kinds: tuple[str, ...] = ("chain",)
    relations: tuple[str, ...] = ()
    limit: int | None = None


def build(config: Config) -> Dataset:
    """Generate the world and its questions; the same config gives the same bytes.

    Raises:
        InputError: A setting out of range, or a limit above the number of questions.
    """
    check(SCHEMA.name, config.split, config.hops)
    if config.people < MIN_PEOPLE:
        raise InputError(f"atlas: people {config.people} is too few; give at least {MIN_PEOPLE}")
    if not config.kinds or not set(config.kinds) <= set(KINDS):
        raise InputError(f"atlas: kinds {config.kinds} must be some of {', '.join(KINDS)}")
    schema = _asked(config.relations)
    sides = both_sides(SCHEMA.name, config.seed, config.people, populate)
    passages = corpus(SCHEMA, config.seed, list(sides.values()))
    chosen = [sides[name] for name in sides_of(config.split)]
    strata = [stratum for side in chosen for stratum in _strata(config, schema, side)]
    return assemble(SCHEMA.name, strata, passages, config.limit)


def _asked(relations: tuple[str, ...]) -> Schema:
    """The schema with the relations that questions are about."""
    known = [relation.name for relation in SCHEMA.relations]
    if unknown := sorted(set(relations) - set(known)):
        raise InputError(f"atlas: unknown relations {unknown}; known are {', '.join(known)}")
    chosen = tuple(r for r in SCHEMA.relations if not relations or r.name in relations)
    return replace(SCHEMA, relations=chosen)


def _strata(config: Config, schema: Schema, side: Side) -> Iterator[Stratum]:
    """One stream of questions per hop count and kind."""
    streams = {}
    for hops in config.hops if "chain" in config.kinds else ():
        rng = draw("atlas", config.seed, side.name, f"{hops}hop")
        streams[f"{hops}hop"] = chains(schema, side, hops, rng)
    for kind, ask in (("comparison", comparisons), ("yes_no", yes_no)):
        if kind in config.kinds:
            rng = draw("atlas", config.seed, side.name, kind)
            streams[kind.replace("_", "-")] = ask(schema, side, rng)
    for label, drafts in streams.items():
        yield Stratum(f"atlas-{label}", f"atlas-{config.seed}-{side.name}-{label}", drafts)
