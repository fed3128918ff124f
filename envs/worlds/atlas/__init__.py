"""The world `atlas`: people, works, institutions and places."""

from ..schema import Schema
from .relations import RELATIONS
from .sentences import DISTRACTORS, SENTENCES

SCHEMA = Schema("atlas", RELATIONS, SENTENCES, DISTRACTORS, place="town")
