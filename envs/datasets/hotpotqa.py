"""HotpotQA: two-hop questions over Wikipedia introductions.

Yang et al., EMNLP 2018 (arXiv:1809.09600). Reads the official JSON list, the Hugging Face variant
with columns, FlashRAG's and Search-R1's JSON Lines and Parquet, and this project's format.
"""

from dataclasses import dataclass

from ..question_contexts import ContextConfig, read_set
from ..question_formats import FLASHRAG, PLAIN, SEARCH_R1
from ..question_hub import HubAddress
from ..question_sets import QuestionSet
from ..types import Dataset
from ..wikipedia_formats import HOTPOTQA

SET = QuestionSet(
    "hotpotqa",
    (PLAIN, FLASHRAG, SEARCH_R1, HOTPOTQA),
    hub=(HubAddress("hotpotqa/hotpot_qa", "distractor"),),
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
