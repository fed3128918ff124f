"""Fills one side of the world `atlas` with places, institutions, people and works."""

import random
from collections.abc import Sequence
from math import isqrt

from .names import Namer
from .schema import Entity, Side

MIN_PEOPLE = 20

# All start with a consonant: the sentences say "a".
TRADES = (
    "painter",
    "poet",
    "chemist",
    "surgeon",
    "lawyer",
    "botanist",
    "printer",
    "sculptor",
    "baker",
    "judge",
)
GENRES = ("novel", "play", "poem", "memoir", "satire", "fable")
PRODUCTS = (
    "glass",
    "wool",
    "salt",
    "paper",
    "cheese",
    "lace",
    "honey",
    "copper",
    "pottery",
    "cider",
    "rope",
    "silk",
)
WORK_NOUNS = (
    "Letters",
    "Gate",
    "River",
    "Garden",
    "Winter",
    "Bridge",
    "Mirror",
    "Road",
    "Lamp",
    "Harvest",
)
INSTITUTION_NOUNS = (
    "College",
    "Academy",
    "University",
    "Hospital",
    "House",
    "Library",
    "Hall",
    "School",
)
PRONOUNS = (
    {"She": "She", "she": "she", "Her": "Her", "her": "her"},
    {"She": "He", "she": "he", "Her": "His", "her": "his"},
)


def populate(name: str, people: int, rng: random.Random, used: set[str]) -> Side:
    """One side.

    Args:
        name: Of the side.
        people: How many; there are about as many other entities.
        rng: The only source of chance.
        used: Name words that are taken, see `Namer`.
    """
    namer = Namer(rng, used)
    towns = namer.words(max(8, people // 3))
    regions = namer.words(max(4, len(towns) // 4))
    countries = namer.words(max(2, len(regions) // 4))
    persons = _person_names(people, namer)
    institutions = _titled(max(4, people // 5), INSTITUTION_NOUNS, "{0} {1}", namer, rng)
    works = _titled(max(6, people // 2), WORK_NOUNS, "The {0} {1}", namer, rng)
    entities = [
        *_places(towns, regions, countries, persons, namer, rng),
        *_persons(persons, towns, institutions, rng),
        *_institutions(institutions, towns, persons, rng),
        *_works(works, persons, towns, rng),
    ]
    return Side(name, entities)


def _person_names(count: int, namer: Namer) -> list[str]:
    """First and last names from pools that grow with the square root: namesakes in any world."""
    root = isqrt(count)
    return namer.pairs(count, namer.words(3 * root), namer.words(4 * root))


def _titled(
    count: int, nouns: Sequence[str], pattern: str, namer: Namer, rng: random.Random
) -> list[str]:
    """Names of a word and a noun; two share a word on average."""
    words = namer.words(count // 2 + 1)
    names: dict[str, None] = {}
    while len(names) < count:
        names[pattern.format(rng.choice(words), rng.choice(nouns))] = None
    return list(names)


def _places(
    towns: list[str],
    regions: list[str],
    countries: list[str],
    persons: list[str],
    namer: Namer,
    rng: random.Random,
) -> list[Entity]:
    """Towns in regions in countries, every region with a town and every country with a region."""
    town_region = dict(zip(towns, _deal(regions, len(towns)), strict=True))
    region_country = dict(zip(regions, _deal(countries, len(regions)), strict=True))
    seats = {region: town for town, region in town_region.items()}
    capitals = {country: seats[region] for region, country in region_country.items()}
    mayors = rng.sample(persons, len(towns))
    made = [
        Entity(
            "town",
            town,
            {
                "region": town_region[town],
                "mayor": mayor,
                "chartered": str(rng.randint(1100, 1599)),
                "product": rng.choice(PRODUCTS),
            },
        )
        for town, mayor in zip(towns, mayors, strict=True)
    ]
    made += [
        Entity("region", region, {"country": region_country[region], "seat": seats[region]})
        for region in regions
    ]
    made += [
        Entity(
            "country",
            country,
            {"capital": capitals[country], "language": namer.word(), "currency": namer.word()},
        )
        for country in countries
    ]
    return made


def _deal(values: list[str], count: int) -> list[str]:
    """`count` values in turn, so that every one is used about equally often."""
    return [values[index % len(values)] for index in range(count)]


def _persons(
    persons: list[str], towns: list[str], institutions: list[str], rng: random.Random
) -> list[Entity]:
    # One big circle of friends: everybody has exactly one, and chains do not come back.
    friends = [*persons[1:], persons[0]]
    return [
        Entity(
            "person",
            person,
            {
                "born": rng.choice(towns),
                "birth_year": str(rng.randint(1820, 1969)),
                "employer": rng.choice(institutions),
                "friend": friend,
                "trade": rng.choice(TRADES),
                **rng.choice(PRONOUNS),
            },
        )
        for person, friend in zip(persons, friends, strict=True)
    ]


def _institutions(
    institutions: list[str], towns: list[str], persons: list[str], rng: random.Random
) -> list[Entity]:
    return [
        Entity(
            "institution",
            institution,
            {
                "site": rng.choice(towns),
                "founder": founder,
                "opened": str(rng.randint(1600, 1819)),
            },
        )
        for institution, founder in zip(
            institutions, rng.sample(persons, len(institutions)), strict=True
        )
    ]


def _works(
    works: list[str], persons: list[str], towns: list[str], rng: random.Random
) -> list[Entity]:
    return [
        Entity(
            "work",
            work,
            {
                "author": rng.choice(persons),
                "published": str(rng.randint(1850, 1999)),
                "setting": rng.choice(towns),
                "genre": rng.choice(GENRES),
            },
        )
        for work in works
    ]
