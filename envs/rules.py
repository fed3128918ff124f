"""SearchRules: what a query may say, and which of the passages found an episode may show."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from retrieval.errors import InputError
from retrieval.types import Hit

from .types import Question

# Those that are on or off, and that a data set may turn on for its questions.
RULES = ("novel_only", "strict_queries", "exclude_sources")

_WORD = re.compile(r"\w+")
_ARTICLES = frozenset({"a", "an", "the"})
# Verdicts on the question say nothing that a search could look for.
_VERDICTS = frozenset({"yes", "no", "maybe"})
_MIN_LETTERS = 3


@dataclass(frozen=True, slots=True)
class SearchRules:
    """What bounds the searches of an episode.

    Attributes:
        novel_only: Leave out passages that an earlier turn has shown.
        strict_queries: A query that names an option which the question does not name is an invalid
            action: searching for the options one by one is guessing with the corpus as an oracle.
        exclude_sources: Leave out `Question.source_ids`, the passages that the question was made
            from.
        excluded_ids: Leave out the passages of these ids, whatever the question.
    """

    novel_only: bool = False
    strict_queries: bool = False
    exclude_sources: bool = False
    excluded_ids: frozenset[str] = field(default=frozenset(), repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.excluded_ids, str):
            raise InputError(f"excluded_ids is {self.excluded_ids!r}; give a set of passage ids")
        object.__setattr__(self, "excluded_ids", frozenset(self.excluded_ids))

    def of(self, question: Question) -> "SearchRules":
        """These rules and those of the question, its source passages among the excluded ids.

        Raises:
            InputError: The question names an unknown rule.
        """
        own = checked_rules(question.rules)
        exclude_sources = self.exclude_sources or "exclude_sources" in own
        return SearchRules(
            novel_only=self.novel_only or "novel_only" in own,
            strict_queries=self.strict_queries or "strict_queries" in own,
            exclude_sources=exclude_sources,
            excluded_ids=self.excluded_ids.union(question.source_ids if exclude_sources else ()),
        )


@dataclass(frozen=True, slots=True)
class Selected:
    """What is left of an answer.

    Attributes:
        hits: No passage twice, best first.
        excluded: How many passages were left out because of their ids.
        repeats: How many were left out because an earlier turn has shown them.
    """

    hits: tuple[Hit, ...]
    excluded: int
    repeats: int


def checked_rules(names: Iterable[str]) -> tuple[str, ...]:
    """The names, which must be of `RULES`.

    Raises:
        InputError: One is not.
    """
    if unknown := [name for name in names if name not in RULES]:
        raise InputError(f"rules: unknown {unknown[0]!r}; choose of {', '.join(RULES)}")
    return tuple(names)


def content(hit: Hit) -> tuple[str, str]:
    """What makes two passages the same: a corpus may hold copies under several ids."""
    return hit.passage.title, hit.passage.text


def select(
    hits: Sequence[Hit], top_k: int, rules: SearchRules, shown: set[tuple[str, str]]
) -> Selected:
    """The best `top_k` hits that the rules allow; of copies of a passage, the best one stays.

    Args:
        hits: Best first, as many as the engine gave.
        top_k: The most hits. Those after the last one taken are not looked at and not counted.
        rules: With the question's own.
        shown: The content of what earlier turns showed.
    """
    kept: dict[tuple[str, str], Hit] = {}
    excluded = repeats = 0
    for hit in hits:
        if len(kept) == top_k:
            break
        if hit.passage.id in rules.excluded_ids:
            excluded += 1
        elif content(hit) in kept:
            continue
        elif rules.novel_only and content(hit) in shown:
            repeats += 1
        else:
            kept[content(hit)] = hit
    return Selected(tuple(kept.values()), excluded, repeats)


def named_option(query: str, question: Question) -> str | None:
    """The letter of an option that the query names and the question does not; None for none.

    A text names an option when it holds the option's words one after the other. Words are runs of
    letters, digits and underscores, in lower case after NFKC; "a", "an" and "the" do not count.
    Options of fewer than 3 letters and digits, and yes, no and maybe, are named by nothing.
    """
    asked, known = _joined(query), _joined(question.text)
    for letter, text in (question.options or {}).items():
        option = _joined(text)
        if len(option.replace(" ", "")) < _MIN_LETTERS or option.strip() in _VERDICTS:
            continue
        if option in asked and option not in known:
            return letter
    return None


def _joined(text: str) -> str:
    """The words, each between two spaces, so that only whole words match."""
    words = _WORD.findall(unicodedata.normalize("NFKC", text).lower())
    return f" {' '.join(word for word in words if word not in _ARTICLES)} "
