"""TriviaQA: trivia questions with many aliases of each answer.

Joshi et al., ACL 2017 (arXiv:1705.03551). Reads the publisher's JSON `{Data: [...]}`, the hub's
columns, FlashRAG's and Search-R1's files, and this project's format. The pages and search results
that come with a question were found by machine, so they are not taken as evidence.
"""

from dataclasses import dataclass

from ..question_formats import FLASHRAG, PLAIN, SEARCH_R1
from ..question_hub import HubAddress
from ..question_rows import Layout
from ..question_sets import QuestionSet, SetConfig
from ..types import Dataset
from ..wikipedia_formats import TRIVIAQA, TRIVIAQA_HUB

SET = QuestionSet(
    "triviaqa",
    (PLAIN, FLASHRAG, SEARCH_R1, TRIVIAQA, TRIVIAQA_HUB),
    Layout(parts=("Data",)),
    (HubAddress("mandarjoshi/trivia_qa", "rc.nocontext"),),
)


@dataclass(frozen=True, slots=True)
class Config(SetConfig):
    """The settings that every named set has."""


def build(config: Config) -> Dataset:
    """Read the questions.

    Raises:
        InputError: A setting, the source or a row is wrong.
    """
    return Dataset(SET.questions(config))
