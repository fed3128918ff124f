"""PubMedQA: yes/no/maybe questions that the abstract of a PubMed article answers.

Jin et al., EMNLP 2019 (arXiv:1909.06146). Reads the publisher's `ori_pqal.json`, `{pmid:
{QUESTION, final_decision, ...}}`, the copy on the hub, MIRAGE's `benchmark.json`, and this
project's format. The options are A yes, B no, C maybe. `source_ids` is the article's PMID: the rule
"exclude_sources" leaves it out of what is found in a corpus whose ids are PMIDs.
"""

from dataclasses import dataclass
from pathlib import Path

from retrieval.errors import InputError

from ..medical_formats import PUBMEDQA
from ..question_formats import MIRAGE, PLAIN
from ..question_hub import HubAddress
from ..question_rows import Layout, parsed
from ..question_sets import QuestionSet, SetConfig
from ..types import Dataset, Question

SET = QuestionSet(
    "pubmedqa",
    (PLAIN, MIRAGE, PUBMEDQA),
    Layout(parts=("pubmedqa",), by_id=True),
    (HubAddress("qiaojin/PubMedQA", "pqa_labeled"),),
)


@dataclass(frozen=True, slots=True)
class Config(SetConfig):
    """The settings that every named set has, and the published test split.

    Attributes:
        test_ground_truth: The publisher's file of that name, {pmid: decision}: its 500 questions
            are the split "test", and test_share is not used. Null to split by the hash of the id.
    """

    test_ground_truth: str | None = None


def build(config: Config) -> Dataset:
    """Read the questions.

    Raises:
        InputError: A setting, the source or a row is wrong, or a question's answer is not that of
            `test_ground_truth`.
    """
    if config.test_ground_truth is None:
        return Dataset(SET.questions(config))
    truth = _truth(config.test_ground_truth)
    questions = SET.questions(config, test_ids=frozenset(truth))
    _compare(SET.source(config), questions, truth)
    return Dataset(questions)


def _truth(path: str) -> dict[str, str]:
    truth = parsed(Path(path))
    if not isinstance(truth, dict) or not all(isinstance(each, str) for each in truth.values()):
        raise InputError(f"{path}: must be {{pmid: decision}}, as test_ground_truth.json is")
    return truth


def _compare(source: str, questions: tuple[Question, ...], truth: dict[str, str]) -> None:
    for question in questions:
        decision = truth.get(question.id, question.answers[1])
        if decision != question.answers[1]:
            raise InputError(
                f"{source}: question {question.id} is answered {question.answers[1]!r}, but "
                f"{decision!r} in test_ground_truth; the files do not belong together"
            )
