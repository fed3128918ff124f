"""2WikiMultihopQA: two- to four-hop questions over Wikipedia, made with Wikidata's relations.

Ho et al., COLING 2020 (arXiv:2011.01060). Reads the official JSON list, which has HotpotQA's keys
and `evidences`, the copy on the hub with columns, FlashRAG's and Search-R1's files, and this
project's format. The official test split has no answers. The module has the set's name, which no
`import` statement can spell: `retrieval.plugins.load` imports it by name.
"""

from dataclasses import dataclass

from ..question_contexts import context_corpus
from ..question_formats import FLASHRAG, PLAIN, SEARCH_R1
from ..question_hub import HubAddress
from ..question_sets import QuestionSet, SetConfig
from ..types import Dataset
from ..wikipedia_formats import HOTPOTQA

SET = QuestionSet(
    "2wikimultihopqa",
    (PLAIN, FLASHRAG, SEARCH_R1, HOTPOTQA),
    hub=(HubAddress("framolfese/2WikiMultihopQA"),),
)


@dataclass(frozen=True, slots=True)
class Config(SetConfig):
    """The settings that every named set has, and what to search.

    Attributes:
        context_corpus: Make the questions' context paragraphs the corpus: those of the whole file,
            whatever the split and the limit, so that one index serves all.
    """

    context_corpus: bool = False


def build(config: Config) -> Dataset:
    """Read the questions.

    Raises:
        InputError: A setting, the source or a row is wrong, or there is no context to make a
            corpus.
    """
    if not config.context_corpus:
        return Dataset(SET.questions(config))
    rows = list(SET.rows(config))
    passages = context_corpus(SET.source(config), rows, SET.name)
    return Dataset(SET.questions(config, rows), passages)
