"""From drafts to a dataset: ids, a balanced order, the limit."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from retrieval.errors import InputError
from retrieval.types import Passage

from ..interleaving import in_turn
from ..types import Dataset, Question
from .chains import Draft
from .expert import Expert, Plan
from .schema import SIDES, Side

SPLITS = (*SIDES, "all")
MAX_HOPS = 4


@dataclass(frozen=True, slots=True)
class Stratum:
    """A stream of questions of one sort.

    Attributes:
        dataset: `Question.dataset`; ends in the sort, such as "atlas-2hop".
        prefix: What the ids start with; a serial number follows.
        drafts: The questions.
    """

    dataset: str
    prefix: str
    drafts: Iterator[Draft]

    def questions(self) -> Iterator[tuple[Question, Plan]]:
        """Number the drafts; a question's id does not depend on the other strata or on a limit."""
        for number, draft in enumerate(self.drafts):
            titles = tuple(dict.fromkeys(hop.subject for hop in draft.plan.hops))
            question = Question(
                id=f"{self.prefix}-{number:06d}",
                text=draft.text,
                answers=draft.answers,
                options=draft.options,
                supporting_titles=titles,
                dataset=self.dataset,
            )
            yield question, draft.plan


def check(name: str, split: str, hops: Sequence[int]) -> None:
    """Refuse what no world can have.

    Raises:
        InputError: An unknown split, hop counts outside 1..4 or repeated.
    """
    if split not in SPLITS:
        raise InputError(f"{name}: split {split!r} is none of {', '.join(SPLITS)}; choose one")
    if len(set(hops)) < len(hops) or not all(1 <= count <= MAX_HOPS for count in hops):
        raise InputError(
            f"{name}: hops {tuple(hops)} must be distinct numbers from 1 to {MAX_HOPS}"
        )


def both_sides(
    name: str,
    seed: int,
    size: int,
    populate: Callable[[str, int, random.Random, set[str]], Side],
) -> dict[str, Side]:
    """Side name -> its entities; no word of a name is on both."""
    used: set[str] = set()
    return {side: populate(side, size, draw(name, seed, side, "world"), used) for side in SIDES}


def sides_of(split: str) -> tuple[str, ...]:
    """The sides that a split's questions come from."""
    return SIDES if split == "all" else (split,)


def assemble(
    name: str, strata: Sequence[Stratum], passages: Sequence[Passage], limit: int | None
) -> Dataset:
    """Take the questions in turn from the strata, so that any prefix is balanced between them.

    A stratum that runs dry drops out; without a limit all questions are taken.

    Raises:
        InputError: The limit is below 1 or above the number of questions.
    """
    if limit is not None and limit < 1:
        raise InputError(f"{name}: limit {limit} must be at least 1, or null for all questions")
    pairs = list(islice(in_turn(stratum.questions() for stratum in strata), limit))
    if not pairs or (limit is not None and len(pairs) < limit):
        raise InputError(
            f"{name}: this world has only {len(pairs)} such questions; lower limit ({limit}), "
            "enlarge the world or allow more hops and kinds"
        )
    plans = {question.id: plan for question, plan in pairs}
    return Dataset(tuple(question for question, _ in pairs), passages, Expert(plans))


def draw(schema: str, seed: int, side: str, what: str) -> random.Random:
    """The source of chance for one purpose; independent of every other's use."""
    return random.Random(f"{schema}/{seed}/{side}/{what}")
