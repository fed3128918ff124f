"""Fills one side of the world with places, people, institutions and works."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from math import isqrt

from ..names import Namer
from ..schema import Entity, Side

MIN_PEOPLE = 20

# All start with a consonant: the sentences say "a".
TRADES = ("painter", "poet", "chemist", "surgeon", "lawyer", "botanist", "printer", "baker")
GENRES = ("novel", "play", "poem", "memoir", "satire", "fable")
PRODUCTS = ("glass", "wool", "salt", "paper", "cheese", "lace", "honey", "copper", "rope", "silk")
WORK_NOUNS = ("Letters", "Gate", "River", "Garden", "Winter", "Bridge", "Mirror", "Harvest")
# Names that need no article, so that they fit wherever a phrase does.
INSTITUTION_NOUNS = ("College", "Academy", "University", "Hospital", "House", "Library", "Hall")
PRONOUNS = (
    {"She": "She", "she": "she", "Her": "Her", "her": "her"},
    {"She": "He", "she": "he", "Her": "His", "her": "his"},
)


@dataclass(frozen=True, slots=True)
class Roster:
    """The names of one side, by kind."""

    people: list[str]
    towns: list[str]
    regions: list[str]
    countries: list[str]
    institutions: list[str]
    works: list[str]


def populate(name: str, people: int, rng: random.Random, used: set[str]) -> Side:
    """One side.

    Args:
        name: Of the side.
        people: How many; there are about as many other entities.
        rng: The only source of chance.
        used: Name words that are taken, see `Namer`.
    """
    namer = Namer(rng, used)
    roster = _roster(people, namer)
    return Side(
        name,
        [
            *_people(roster, rng),
            *_towns(roster, rng),
            *_regions_and_countries(roster, namer),
            *_institutions(roster, rng),
            *_works(roster, rng),
        ],
    )


def _roster(people: int, namer: Namer) -> Roster:
    towns = max(8, people // 3)
    regions = max(4, towns // 4)
    # First and last names from pools that grow with the square root: namesakes in any world.
    root = isqrt(people)
    return Roster(
        people=namer.pairs(people, namer.words(3 * root), namer.words(4 * root)),
        towns=namer.words(towns),
        regions=namer.words(regions),
        countries=namer.words(max(2, regions // 4)),
        institutions=namer.titled(max(4, people // 5), INSTITUTION_NOUNS),
        works=namer.titled(people // 2, WORK_NOUNS, "The {0} {1}"),
    )


def _people(roster: Roster, rng: random.Random) -> list[Entity]:
    # One big circle of friends: everybody has exactly one, and chains do not come back.
    friends = [*roster.people[1:], roster.people[0]]
    return [
        Entity(
            "person",
            person,
            {
                "born": rng.choice(roster.towns),
                "birth_year": str(rng.randint(1820, 1969)),
                "employer": rng.choice(roster.institutions),
                "friend": friend,
                "trade": rng.choice(TRADES),
                **rng.choice(PRONOUNS),
            },
        )
        for person, friend in zip(roster.people, friends, strict=True)
    ]


def _towns(roster: Roster, rng: random.Random) -> list[Entity]:
    mayors = rng.sample(roster.people, len(roster.towns))
    regions = _deal(roster.regions, roster.towns)
    return [
        Entity(
            "town",
            town,
            {
                "region": regions[town],
                "mayor": mayor,
                "chartered": str(rng.randint(1100, 1599)),
                "product": rng.choice(PRODUCTS),
            },
        )
        for town, mayor in zip(roster.towns, mayors, strict=True)
    ]


def _regions_and_countries(roster: Roster, namer: Namer) -> list[Entity]:
    # Turned around, a deal picks one town of each region, one region of each country.
    seats = {region: town for town, region in _deal(roster.regions, roster.towns).items()}
    countries = _deal(roster.countries, roster.regions)
    capitals = {country: seats[region] for region, country in countries.items()}
    regions = [
        Entity("region", region, {"country": countries[region], "seat": seats[region]})
        for region in roster.regions
    ]
    return regions + [
        Entity(
            "country",
            country,
            {"capital": capitals[country], "language": namer.word(), "currency": namer.word()},
        )
        for country in roster.countries
    ]


def _institutions(roster: Roster, rng: random.Random) -> list[Entity]:
    founders = rng.sample(roster.people, len(roster.institutions))
    return [
        Entity(
            "institution",
            institution,
            {
                "site": rng.choice(roster.towns),
                "founder": founder,
                "opened": str(rng.randint(1600, 1819)),
            },
        )
        for institution, founder in zip(roster.institutions, founders, strict=True)
    ]


def _works(roster: Roster, rng: random.Random) -> list[Entity]:
    return [
        Entity(
            "work",
            work,
            {
                "author": rng.choice(roster.people),
                "published": str(rng.randint(1850, 1999)),
                "setting": rng.choice(roster.towns),
                "genre": rng.choice(GENRES),
            },
        )
        for work in roster.works
    ]


def _deal(values: Sequence[str], receivers: Sequence[str]) -> dict[str, str]:
    """Receiver -> value in turn, so that every value has about equally many receivers."""
    return dict(zip(receivers, cycle(values), strict=False))
