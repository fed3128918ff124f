"""2WikiMultihopQA: two- to four-hop questions over Wikipedia, made with Wikidata's relations.

Ho et al., COLING 2020 (arXiv:2011.01060). Reads the official JSON list, which has HotpotQA's keys
and `evidences`, the copy on the hub with columns, FlashRAG's and Search-R1's files, and this
project's format. The official test split has no answers. The module has the set's name, which no
`import` statement can spell: `retrieval.plugins.load` imports it by name.
"""

from dataclasses import dataclass

from ..question_contexts import ContextConfig, read_set
from ..question_formats import FLASHRAG, PLAIN, SEARCH_R1
from ..question_hub import HubAddress
from ..question_sets import QuestionSet
from ..types import Dataset
from ..wikipedia_formats import HOTPOTQA

SET = QuestionSet(
    "2wikimultihopqa",
    (PLAIN, FLASHRAG, SEARCH_R1, HOTPOTQA),
    hub=(HubAddress("framolfese/2WikiMultihopQA"),),
)


@dataclass(frozen=True, slots=True)
class Config(ContextConfig):
    """The settings that every named set has, and `context_corpus`."""


def build(config: Config) -> Dataset:
    """Read the questions.

    Raises:
        InputError: A setting, the source or a row is wrong, or there is no context to make a
            corpus.
    """
    return read_set(SET, config)
