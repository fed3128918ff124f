"""Fills one side of the world with drugs, diseases, microbes, proteins and side effects."""

import random
from dataclasses import dataclass
from math import isqrt

from ..names import Namer
from ..schema import Entity, Side

MIN_DRUGS = 20

# Endings that no real class of drugs or proteins has, so that the names stay fictional.
DRUG_ENDINGS = ("oltin", "ambrel", "isov", "ustan", "eldan", "ozine")
PROTEIN_ENDINGS = ("ulase", "imase", "opsor", "ectar")
DISEASE_NOUNS = ("fever", "cough", "palsy", "rash", "pox", "ague", "colic", "wasting")
REACTION_NOUNS = ("itch", "tremor", "cramp", "daze", "thirst", "numbness")
CARRIER_NOUNS = ("tick", "fly", "flea", "snail", "rat", "bat", "mite", "moth")
GLAND_NOUNS = ("gland", "node", "duct", "follicle")
HERB_NOUNS = ("root", "leaf", "bark", "seed", "moss", "resin")
FORMS = ("tablet", "syrup", "powder", "lotion")
SIGNS = ("chills", "red eyes", "sore joints", "a dry mouth", "pale skin", "short breath")


@dataclass(frozen=True, slots=True)
class Roster:
    """The names of one side, by kind."""

    drugs: list[str]
    diseases: list[str]
    microbes: list[str]
    proteins: list[str]
    reactions: list[str]


def populate(name: str, drugs: int, rng: random.Random, used: set[str]) -> Side:
    """One side.

    Args:
        name: Of the side.
        drugs: How many; each treats the one disease that is caused by one microbe.
        rng: The only source of chance.
        used: Name words that are taken, see `Namer`.
    """
    namer = Namer(rng, used)
    roster = _roster(drugs, namer)
    return Side(
        name,
        [
            *_drugs(roster, rng),
            *_diseases_and_microbes(roster, namer, rng),
            *_proteins_and_reactions(roster, namer),
        ],
    )


def _roster(drugs: int, namer: Namer) -> Roster:
    # Two-word names of microbes from pools that grow with the square root: namesakes anywhere.
    root = isqrt(drugs)
    species = [word.lower() for word in namer.words(4 * root)]
    return Roster(
        drugs=namer.words(drugs, DRUG_ENDINGS),
        diseases=namer.titled(drugs, DISEASE_NOUNS),
        microbes=namer.pairs(drugs, namer.words(3 * root), species),
        proteins=namer.words(max(8, drugs // 3), PROTEIN_ENDINGS),
        reactions=namer.titled(max(8, drugs // 3), REACTION_NOUNS),
    )


def _drugs(roster: Roster, rng: random.Random) -> list[Entity]:
    return [
        Entity(
            "drug",
            drug,
            {
                "treats": disease,
                "target": rng.choice(roster.proteins),
                "side_effect": rng.choice(roster.reactions),
                "form": rng.choice(FORMS),
            },
        )
        for drug, disease in zip(roster.drugs, roster.diseases, strict=True)
    ]


def _diseases_and_microbes(roster: Roster, namer: Namer, rng: random.Random) -> list[Entity]:
    carriers = namer.titled(max(8, len(roster.microbes) // 3), CARRIER_NOUNS)
    entities = []
    for drug, disease, microbe in zip(roster.drugs, roster.diseases, roster.microbes, strict=True):
        facts = {"drug": drug, "cause": microbe, "sign": rng.choice(SIGNS)}
        entities.append(Entity("disease", disease, facts))
        facts = {"disease": disease, "carrier": rng.choice(carriers)}
        entities.append(Entity("microbe", microbe, facts))
    return entities


def _proteins_and_reactions(roster: Roster, namer: Namer) -> list[Entity]:
    glands = namer.titled(len(roster.proteins), GLAND_NOUNS)
    herbs = namer.titled(len(roster.reactions), HERB_NOUNS)
    return [
        *(
            Entity("protein", protein, {"gland": gland})
            for protein, gland in zip(roster.proteins, glands, strict=True)
        ),
        *(
            Entity("reaction", reaction, {"remedy": herb})
            for reaction, herb in zip(roster.reactions, herbs, strict=True)
        ),
    ]
