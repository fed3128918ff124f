"""BioASQ task B: yes/no and factoid questions of biomedical experts, with the articles they read.

Tsatsaronis et al., BMC Bioinformatics 2015 (doi:10.1186/s12859-015-0564-6). Reads the publisher's
JSON `{questions: [{id, body, type, exact_answer, documents}]}`, the yes/no questions of MIRAGE's
`benchmark.json`, and this project's format. A yes/no question has the options A yes and B no, a
factoid its synonyms as answers; list and summary questions are left out and counted. `source_ids`
are the PMIDs of the documents. The publisher gives the files to those who register; the hub has no
copy.
"""

from dataclasses import dataclass

from retrieval.errors import InputError

from ..medical_formats import BIOASQ
from ..question_formats import MIRAGE, PLAIN
from ..question_rows import Layout
from ..question_sets import QuestionSet, SetConfig
from ..types import Dataset, Question

KINDS = ("yesno", "factoid")

SET = QuestionSet("bioasq", (PLAIN, MIRAGE, BIOASQ), Layout(parts=("questions", "bioasq")))


@dataclass(frozen=True, slots=True)
class Config(SetConfig):
    """The settings that every named set has, and the sorts of questions.

    Attributes:
        kinds: Which to take: "yesno", "factoid".
    """

    kinds: tuple[str, ...] = KINDS


def build(config: Config) -> Dataset:
    """Read the questions.

    Raises:
        InputError: A setting, the source or a row is wrong.
    """
    if not config.kinds or not set(config.kinds) <= set(KINDS):
        raise InputError(f"bioasq: kinds {config.kinds} must be some of {', '.join(KINDS)}")

    def skip(question: Question) -> str | None:
        kind = "yesno" if question.options else "factoid"
        return None if kind in config.kinds else f"of type {kind}"

    return Dataset(SET.questions(config, skip=skip))
