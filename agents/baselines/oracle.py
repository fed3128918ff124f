"""The reading ceiling: the passages that hold the evidence are given, nothing is searched for.

What it gets wrong, no better search would have got right with this model and this prompt.
"""

from collections import defaultdict
from dataclasses import dataclass

from envs.types import Question
from retrieval.corpus import Corpus
from retrieval.errors import InputError
from retrieval.types import Passage

from ..methods import Method, Prompted, Script, Setting, answer, ask, user
from ..replies import final_answer, how_to_answer, shown


@dataclass(frozen=True)
class Config:
    """What the ceiling reads.

    Attributes:
        max_passages: The most passages given; titles may cover many passages of one article.
    """

    max_passages: int = 5

    def __post_init__(self) -> None:
        if self.max_passages < 1:
            raise InputError(f"max_passages is {self.max_passages}; give at least 1")


def build(config: Config, setting: Setting) -> Method:
    """The method.

    Raises:
        InputError: The corpus is not at hand, or a question's evidence is unknown or not in it.
    """
    if setting.corpus is None:
        raise InputError(
            "method.name: oracle reads the evidence from the corpus; give --retriever.corpus FILE"
        )
    evidence = _evidence(setting, setting.corpus)

    def play(question: Question) -> Script:
        passages = shown(evidence[question.id][: config.max_passages])
        prompt = f"{passages}\n\n{how_to_answer(question)}\n\nQuestion: {question.prompt}"
        reply = yield from ask(user(prompt))
        yield from answer(final_answer(reply))

    return Prompted(play, turns=1)


def _evidence(setting: Setting, corpus: Corpus) -> dict[str, list[Passage]]:
    """Question id -> its passages: the source passages, or those of the supporting titles."""
    wanted_ids = {i for question in setting.questions for i in question.source_ids}
    wanted_titles = {t for question in setting.questions for t in question.supporting_titles}
    by_id: dict[str, Passage] = {}
    by_title: dict[str, list[Passage]] = defaultdict(list)
    for passage in corpus.passages:
        if passage.id in wanted_ids:
            by_id[passage.id] = passage
        if passage.title in wanted_titles:
            by_title[passage.title].append(passage)
    found = {
        question.id: [by_id[i] for i in question.source_ids if i in by_id]
        or [p for title in question.supporting_titles for p in by_title[title]]
        for question in setting.questions
    }
    missing = [identifier for identifier, passages in found.items() if not passages]
    if missing:
        raise InputError(
            f"method.name: oracle: the corpus holds no evidence of {len(missing)} of {len(found)} "
            f"questions (such as {missing[0]!r}); leave them out with --with_evidence"
        )
    return found
