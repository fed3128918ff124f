"""The expert: knows the facts that a question passes through and looks them up one by one."""

from collections.abc import Mapping
from dataclasses import dataclass

from retrieval.errors import InputError

from ..types import Question
from .schema import Relation


@dataclass(frozen=True, slots=True)
class Hop:
    """One fact to look up.

    Attributes:
        relation: What is looked up.
        subject: Of what.
        object: What it is.
    """

    relation: Relation
    subject: str
    object: str

    @property
    def need(self) -> str:
        """What the expert says it lacks."""
        return f"I need {self.relation.phrases[0].format(self.subject)}."

    @property
    def search(self) -> str:
        """The search for it; names the subject."""
        return f"<search>{self.relation.query.format(self.subject)}</search>"

    @property
    def fact(self) -> str:
        """What the expert says once it is found."""
        return self.relation.fact.format(self.subject, self.object)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to answer one question.

    Attributes:
        hops: The facts in the order of the searches.
        answer: What the expert answers.
        conclusion: What it says after the last fact; empty when the last object is the answer.
    """

    hops: tuple[Hop, ...]
    answer: str
    conclusion: str = ""


@dataclass(frozen=True, slots=True)
class Expert:
    """Callable as `Dataset.demonstrate`.

    Attributes:
        plans: Question id -> plan.
    """

    plans: Mapping[str, Plan]

    def __call__(self, question: Question, stop_early: bool) -> tuple[str, ...]:
        """The texts of the expert's turns.

        With `stop_early` the last hop is left out: the turn after the fact before it closes its
        thought and answers with that fact's object. Up to there the texts are the same.

        Raises:
            InputError: The question is not one of this dataset's.
        """
        plan = self.plans.get(question.id)
        if plan is None:
            raise InputError(
                f"question {question.id!r}: the expert knows only the questions of its own "
                "dataset; demonstrate with the dataset that the question came from"
            )
        if stop_early and len(plan.hops) > 1:
            hops = plan.hops[:-1]
            return _turns(Plan(hops, answer=hops[-1].object))
        return _turns(plan)


def _turns(plan: Plan) -> tuple[str, ...]:
    turns = []
    known = ""
    for hop in plan.hops:
        turns.append(f"<think>{known}{hop.need}</think>\n{hop.search}")
        known = f"{hop.fact} "
    thought = (known + plan.conclusion).strip()
    turns.append(f"<think>{thought}</think>\n<answer>{plan.answer}</answer>")
    return tuple(turns)
