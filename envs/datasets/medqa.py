"""MedQA: multiple-choice questions of the US medical licensing exam.

Jin et al., 2021 (arXiv:2009.13081). Reads the official JSON Lines `{question, options, answer,
answer_idx}`, the copy on the hub, the MIRAGE benchmark's `benchmark.json` (Xiong et al.,
arXiv:2402.13178), which holds MedQA, MMLU, PubMedQA, BioASQ and MedMCQA as subsets, and this
project's format.
"""

from dataclasses import dataclass, replace

from ..medical_formats import MEDQA
from ..question_formats import MIRAGE, PLAIN
from ..question_hub import HubAddress
from ..question_rows import Layout
from ..question_sets import QuestionSet, SetConfig
from ..types import Dataset

SET = QuestionSet(
    "medqa",
    (PLAIN, MEDQA, MIRAGE),
    hub=(HubAddress("GBaker/MedQA-USMLE-4-options"),),
)


@dataclass(frozen=True, slots=True)
class Config(SetConfig):
    """The settings that every named set has, and the part of MIRAGE.

    Attributes:
        subset: Of MIRAGE's file: medqa, medmcqa, pubmedqa, bioasq or mmlu. Other files have none.
    """

    subset: str = "medqa"


def build(config: Config) -> Dataset:
    """Read the questions.

    Raises:
        InputError: A setting, the source or a row is wrong.
    """
    chosen = replace(SET, name=config.subset, layout=Layout(parts=(config.subset,)))
    return Dataset(chosen.questions(config))
