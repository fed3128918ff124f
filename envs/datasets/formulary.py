"""A generated world of drugs and diseases, with four-option questions of 1 to 4 hops.

Everything is fictional, so an answer can only come from searching. Train and test share no entity
and no word of a name. The passages are the whole world, whatever the split: one index serves both.

The wrong options are of the right one's kind and side; the letter is uniform.
`Question.dataset` is "formulary-1hop" .. "formulary-4hop"; `supporting_titles` are the titles of
the needed passages in the order of the searches.
"""

from dataclasses import dataclass

from retrieval.errors import InputError

from ..types import Dataset
from ..worlds.chains import chains
from ..worlds.choices import offer
from ..worlds.formulary import SCHEMA
from ..worlds.formulary.facts import MIN_DRUGS, populate
from ..worlds.passages import corpus
from ..worlds.questions import Stratum, assemble, both_sides, check, draw, sides_of
from ..worlds.schema import Side


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of the world.

    Attributes:
        seed: Another seed, another world.
        drugs: Drugs on each of the two sides; the whole world has about 8 passages per drug.
            At least 20.
        split: "train", "test" or "all": which side the questions are about.
        hops: Hop counts of the questions, 1 to 4, equally often.
        limit: Number of questions; null for all there are.
    """

    seed: int = 0
    drugs: int = 200
    split: str = "train"
    hops: tuple[int, ...] = (1, 2)
    limit: int | None = None


def build(config: Config) -> Dataset:
    """Generate the world and its questions; the same config gives the same bytes.

    Raises:
        InputError: A setting out of range, or a limit above the number of questions.
    """
    check(SCHEMA.name, config.split, config.hops)
    if config.drugs < MIN_DRUGS:
        raise InputError(f"formulary: drugs {config.drugs} is too few; give at least {MIN_DRUGS}")
    sides = both_sides(SCHEMA.name, config.seed, config.drugs, populate)
    passages = corpus(SCHEMA, config.seed, list(sides.values()))
    strata = [
        _stratum(config.seed, sides[name], hops)
        for name in sides_of(config.split)
        for hops in config.hops
    ]
    return assemble(SCHEMA.name, strata, passages, config.limit)


def _stratum(seed: int, side: Side, hops: int) -> Stratum:
    rng = draw("formulary", seed, side.name, f"{hops}hop")
    drafts = offer(chains(SCHEMA, side, hops, rng), side, rng)
    return Stratum(f"formulary-{hops}hop", f"formulary-{seed}-{side.name}-{hops}hop", drafts)
