"""No model at all: one search with the question, and an answer by a rule. The floor.

* Options: the one whose words cover most of themselves in the passages found (the first of equals).
* Open questions: the title of the best passage that the question does not name already.

On a generated world, `expert` plays the world's own expert instead: the ceiling.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from envs.actions import parse
from envs.answers import mentions, normalize
from envs.types import ActionKind, Question
from retrieval.errors import InputError
from retrieval.types import Hit

from ..methods import Method, Prompted, Script, Setting, answer, search


@dataclass(frozen=True)
class Config:
    """Which script.

    Attributes:
        expert: Play the dataset's own expert.
    """

    expert: bool = False


def build(config: Config, setting: Setting) -> Method:
    """The method.

    Raises:
        InputError: `expert` where the dataset has none.
    """
    if not config.expert:
        return Prompted(_rule, turns=2, asks_model=False)
    demonstrate = setting.dataset.demonstrate
    if demonstrate is None:
        raise InputError("method.expert: this dataset has no expert; set it to false")

    def expert(question: Question) -> Script:
        for turn in demonstrate(question, False):
            action = parse(turn)
            if action.kind is ActionKind.ANSWER:
                yield from answer(action.content)
            else:
                yield from search(action.content)

    return Prompted(expert, asks_model=False)


def _rule(question: Question) -> Script:
    seen = yield from search(question.text)
    if question.options:
        yield from answer(_best_option(question.options, seen.hits))
    else:
        titles = [hit.passage.title for hit in seen.hits]
        fresh = [title for title in titles if not mentions(question.text, title)]
        yield from answer((fresh or titles or [""])[0])


def _best_option(options: Mapping[str, str], hits: tuple[Hit, ...]) -> str:
    found = set(normalize(" ".join(f"{h.passage.title} {h.passage.text}" for h in hits)).split())

    def covered(letter: str) -> float:
        words = normalize(options[letter]).split()
        return sum(word in found for word in words) / max(1, len(words))

    return max(options, key=covered)
