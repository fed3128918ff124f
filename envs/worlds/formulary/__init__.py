"""The world `formulary`: drugs, diseases, microbes, proteins and side effects."""

from ..schema import Schema
from .relations import RELATIONS
from .sentences import DISTRACTORS, SENTENCES

SCHEMA = Schema("formulary", RELATIONS, SENTENCES, DISTRACTORS, place="disease")
