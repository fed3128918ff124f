"""MedMCQA, PubMedQA, MMLU, BioASQ and AlphaMed, in rows as published."""

import json
from pathlib import Path
from typing import Any

import pytest

from envs.medical_formats import inline_options
from retrieval.errors import InputError

from .question_files import json_file, jsonl_file, parquet_file, questions, table_file

# rawdata/medmcqa/data/dev.json of Teddy-XiongGZ/MIRAGE, lines 1, 3, 12 and 19, shortened.
MEDMCQA: list[dict[str, Any]] = [
    {
        "question": text,
        "exp": None,
        "cop": cop,
        **dict(zip(("opa", "opb", "opc", "opd"), options, strict=True)),
        "subject_name": "Physiology",
        "id": f"id-{cop}",
        "choice_type": "single",
    }
    for text, cop, options in [
        ("Axonal transport is:", 3, ("Antegrade", "Retrograde", "Both ways", "None")),
        ("Gait apraxia is seen in:", 1, ("ACA", "MCA", "PCA", "Choroidal")),
        ("Concentration of tropicamide:", 2, ("0.02", "0.01", "0.03", "0.04")),
        ("Thick curd like white patch:", 4, ("Tuberculosis", "Lichen", "Lupus", "Candidiasis")),
    ]
]
RIGHT = [("C", "Both ways"), ("A", "ACA"), ("B", "0.01"), ("D", "Candidiasis")]
FROM_0 = [{**row, "cop": row["cop"] - 1} for row in MEDMCQA]


class TestMedMCQA:
    def test_the_publishers_files_are_json_lines_called_json(self, tmp_path: Path) -> None:
        found = questions("medmcqa", jsonl_file(tmp_path / "dev.json", MEDMCQA))
        assert [question.answers for question in found] == RIGHT
        assert found[1].options == {"A": "ACA", "B": "MCA", "C": "PCA", "D": "Choroidal"}
        assert found[1].id == "id-1" and found[1].dataset == "medmcqa"

    def test_the_hub_counts_from_0(self, tmp_path: Path) -> None:
        found = questions("medmcqa", parquet_file(tmp_path / "validation.parquet", FROM_0))
        assert [question.answers for question in found] == RIGHT

    def test_the_numbers_decide_whatever_the_suffix(self, tmp_path: Path) -> None:
        found = questions("medmcqa", jsonl_file(tmp_path / "exported.jsonl", FROM_0))
        assert [question.answers for question in found] == RIGHT
        found = questions("medmcqa", parquet_file(tmp_path / "converted.parquet", MEDMCQA))
        assert [question.answers for question in found] == RIGHT

    def test_where_no_number_tells_the_suffix_decides(self, tmp_path: Path) -> None:
        few = MEDMCQA[:3]
        (first, *_) = questions("medmcqa", jsonl_file(tmp_path / "few.json", few))
        assert first.answers[0] == "C"
        (first, *_) = questions("medmcqa", parquet_file(tmp_path / "few.parquet", few))
        assert first.answers[0] == "D"

    def test_mixed_counts_are_refused(self, tmp_path: Path) -> None:
        path = jsonl_file(tmp_path / "q.jsonl", [FROM_0[1], MEDMCQA[3]])
        with pytest.raises(InputError, match="cop is 0 in some rows and 4 in others"):
            questions("medmcqa", path)

    def test_the_test_split_has_no_answers(self, tmp_path: Path) -> None:
        path = parquet_file(tmp_path / "test.parquet", [{**MEDMCQA[0], "cop": -1}])
        with pytest.raises(
            InputError, match="row 1: cop is -1, not 0 to 3: no answer is published"
        ):
            questions("medmcqa", path)

    def test_mirage(self, tmp_path: Path) -> None:
        row = {"question": "q?", "options": {"A": "x", "B": "y"}, "answer": "B"}
        path = json_file(tmp_path / "benchmark.json", {"medqa": {}, "medmcqa": {"7": row}})
        (question,) = questions("medmcqa", path)
        assert (question.id, question.answers) == ("7", ("B", "y"))


# data/ori_pqal.json of pubmedqa/pubmedqa, shortened.
PUBMEDQA = {
    "21645374": {
        "QUESTION": "Do mitochondria play a role in remodelling lace plant leaves?",
        "CONTEXTS": ["Programmed cell death (PCD) is the regulated death of cells."],
        "LABELS": ["BACKGROUND"],
        "YEAR": "2011",
        "final_decision": "yes",
        "LONG_ANSWER": "Results depicted mitochondrial dynamics in vivo.",
    },
    "16418930": {
        "QUESTION": "Landolt C and snellen e acuity: differences in strabismus amblyopia?",
        "CONTEXTS": ["Assessment of visual acuity depends on the optotypes."],
        "final_decision": "no",
    },
    "26037986": {
        "QUESTION": "30-Day mortality: an area of concern?",
        "CONTEXTS": ["Emergency surgery."],
        "final_decision": "maybe",
    },
}


class TestPubMedQA:
    def test_official(self, tmp_path: Path) -> None:
        found = questions("pubmedqa", json_file(tmp_path / "ori_pqal.json", PUBMEDQA))
        assert [question.id for question in found] == list(PUBMEDQA)
        assert [question.answers for question in found] == [
            ("A", "yes"),
            ("B", "no"),
            ("C", "maybe"),
        ]
        assert all(q.options == {"A": "yes", "B": "no", "C": "maybe"} for q in found)
        assert found[0].source_ids == ("21645374",)

    def test_columns_of_the_hub(self, tmp_path: Path) -> None:
        row = {
            "pubid": 21645374,
            "question": "Do they?",
            "context": {"contexts": ["..."], "labels": ["BACKGROUND"]},
            "long_answer": "...",
            "final_decision": "maybe",
        }
        (question,) = questions("pubmedqa", parquet_file(tmp_path / "train.parquet", [row]))
        assert (question.id, question.source_ids) == ("21645374", ("21645374",))
        assert question.answers == ("C", "maybe")

    def test_the_published_test_split(self, tmp_path: Path) -> None:
        path = json_file(tmp_path / "ori_pqal.json", PUBMEDQA)
        truth = json_file(tmp_path / "test_ground_truth.json", {"16418930": "no"})

        def ids(split: str) -> list[str]:
            found = questions("pubmedqa", path, split=split, test_ground_truth=truth)
            return [question.id for question in found]

        assert ids("test") == ["16418930"]
        assert ids("train") == ["21645374", "26037986"]
        assert ids("all") == list(PUBMEDQA)

    def test_a_test_split_that_does_not_belong_is_refused(self, tmp_path: Path) -> None:
        path = json_file(tmp_path / "ori_pqal.json", PUBMEDQA)
        truth = json_file(tmp_path / "wrong.json", {"16418930": "yes"})
        with pytest.raises(InputError, match="16418930 is answered 'no', but 'yes' in test_ground"):
            questions("pubmedqa", path, test_ground_truth=truth)
        truth = json_file(tmp_path / "other.json", {"1": "yes"})
        with pytest.raises(InputError, match="no questions in split 'test' by the 1 ids"):
            questions("pubmedqa", path, split="test", test_ground_truth=truth)
        with pytest.raises(InputError, match=r"must be .pmid: decision"):
            questions("pubmedqa", path, test_ground_truth=json_file(tmp_path / "l.json", [1]))

    def test_an_article_without_a_decision(self, tmp_path: Path) -> None:
        row = {**PUBMEDQA["16418930"], "final_decision": "unsure"}
        path = json_file(tmp_path / "p.json", {"16418930": row})
        with pytest.raises(
            InputError, match=r"p.json: 16418930: answer 'unsure' is none of the opt"
        ):
            questions("pubmedqa", path)


SUBJECTS = (
    *("anatomy", "clinical_knowledge", "college_biology", "college_medicine"),
    *("medical_genetics", "professional_medicine"),
)
MMLU_ROW = ["A lesion, at the foramen, will cause", "loss of taste", "paralysis", "pain", "no", "B"]


class TestMMLU:
    def test_one_table_without_a_header(self, tmp_path: Path) -> None:
        path = table_file(tmp_path / "anatomy_test.csv", [MMLU_ROW, [*MMLU_ROW[:5], "D"]])
        first, second = questions("mmlu_med", path)
        assert first.id == "anatomy-000" and second.id == "anatomy-001"
        assert first.text == "A lesion, at the foramen, will cause"
        assert first.answers == ("B", "paralysis") and second.answers == ("D", "no")

    def test_the_folder_of_the_six_subjects(self, tmp_path: Path) -> None:
        for subject in SUBJECTS:
            table_file(tmp_path / f"{subject}_test.csv", [MMLU_ROW])
        table_file(tmp_path / "astronomy_test.csv", [MMLU_ROW])
        found = questions("mmlu_med", str(tmp_path))
        assert [question.id for question in found] == [f"{subject}-000" for subject in SUBJECTS]
        (tmp_path / "anatomy_test.csv").unlink()
        with pytest.raises(InputError, match=r"lacks anatomy_test.csv"):
            questions("mmlu_med", str(tmp_path))

    def test_columns_of_the_hub(self, tmp_path: Path) -> None:
        row = {"question": "q?", "subject": "anatomy", "choices": list("wxyz"), "answer": 3}
        (question,) = questions("mmlu_med", parquet_file(tmp_path / "test.parquet", [row]))
        assert question.answers == ("D", "z") and question.options == dict(
            zip("ABCD", "wxyz", strict=True)
        )

    def test_wrong_rows_name_table_and_line(self, tmp_path: Path) -> None:
        path = table_file(tmp_path / "anatomy_test.csv", [MMLU_ROW, [*MMLU_ROW[:5], "x"]])
        with pytest.raises(InputError, match=r"anatomy_test.csv line 2: answer 'x' is none of the"):
            questions("mmlu_med", path)
        path = table_file(tmp_path / "b_test.csv", [MMLU_ROW[:5]])
        with pytest.raises(InputError, match="line 1: 5 cells where 6 belong"):
            questions("mmlu_med", path)


# Task10BGoldenEnriched/10B1_golden.json, shortened.
BIOASQ = {
    "questions": [
        {
            "documents": ["http://www.ncbi.nlm.nih.gov/pubmed/34022131"],
            "snippets": [{"text": "Non-coding region variants upstream of MEF2C."}],
            "body": "Do only changes in coding regions of MEF2C cause developmental disorders?",
            "type": "yesno",
            "id": "61f80d5d882a024a1000003c",
            "ideal_answer": ["No. Non-coding ..."],
            "exact_answer": "No",
        },
        {
            "documents": [
                "http://www.ncbi.nlm.nih.gov/pubmed/34494428",
                "http://www.ncbi.nlm.nih.gov/pubmed/34558200",
            ],
            "body": "Which factor is inhibited by Milvexian?",
            "type": "factoid",
            "id": "61f58de2882a024a1000000a",
            "exact_answer": [["XIa", "factor XIa"], ["FXIa"]],
        },
        {"body": "List them.", "type": "list", "id": "3", "exact_answer": [["a"], ["b"]]},
        {"body": "Tell me.", "type": "summary", "id": "4", "ideal_answer": ["..."]},
    ]
}


class TestBioASQ:
    def test_yes_no_and_factoid_are_taken_the_rest_counted(self, tmp_path: Path) -> None:
        path = json_file(tmp_path / "10B1_golden.json", BIOASQ)
        with pytest.warns(UserWarning, match="left out: 1 of type list, 1 of type summary"):
            decision, factoid = questions("bioasq", path)
        assert decision.answers == ("B", "no") and decision.options == {"A": "yes", "B": "no"}
        assert decision.source_ids == ("34022131",)
        assert factoid.answers == ("XIa", "factor XIa", "FXIa") and factoid.options is None
        assert factoid.source_ids == ("34494428", "34558200")
        assert factoid.id == "61f58de2882a024a1000000a" and factoid.dataset == "bioasq"

    @pytest.mark.filterwarnings("ignore:.*rows left out")
    def test_one_kind_only(self, tmp_path: Path) -> None:
        path = json_file(tmp_path / "10B1_golden.json", BIOASQ)
        (only,) = questions("bioasq", path, kinds=("factoid",))
        assert only.id == "61f58de2882a024a1000000a"
        # The limit counts what is left.
        (only,) = questions("bioasq", path, kinds=("factoid",), limit=1)
        assert only.id == "61f58de2882a024a1000000a"
        with pytest.raises(InputError, match=r"bioasq: kinds .* must be some of yesno, factoid"):
            questions("bioasq", path, kinds=("list",))

    def test_mirage(self, tmp_path: Path) -> None:
        row = {
            "question": "Do they?",
            "options": {"A": "yes", "B": "no"},
            "answer": "A",
            "PMID": [34022131, 5],
        }
        path = json_file(tmp_path / "benchmark.json", {"bioasq": {"61f8": row}})
        (question,) = questions("bioasq", path)
        assert question.answers == ("A", "yes") and question.source_ids == ("34022131", "5")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"exact_answer": "perhaps"}, "answer 'perhaps' is none of the options A, B"),
            ({"exact_answer": None}, "no answers, or an empty one"),
            ({"documents": [7]}, "documents must be a list of addresses"),
        ],
    )
    def test_wrong_rows(self, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        row = {**BIOASQ["questions"][0], **change}
        path = json_file(tmp_path / "g.json", {"questions": [row]})
        with pytest.raises(InputError, match=f"g.json: item 1: {message}"):
            questions("bioasq", path)

    def test_it_is_not_on_the_hub(self) -> None:
        for path in (None, "hf:", "hf:@test"):
            with pytest.raises(InputError, match="bioasq: has no known place on the hub; give a"):
                questions("bioasq", path)


class TestAlphaMed:
    @pytest.mark.parametrize(
        "text",
        [
            "What is lost?\nA. Hearing\nB. Sensation\nC. B. subtilis\nD. Vitamin A. No",
            "What is lost?\n\nA) Hearing\nB) Sensation\nC) B. subtilis\nD) Vitamin A. No\n",
            "What is lost? (A) Hearing (B) Sensation (C) B. subtilis (D) Vitamin A. No",
            "What is lost?\nA: Hearing\nB: Sensation\nC: B. subtilis\nD: Vitamin A. No",
        ],
    )
    def test_the_options_stand_behind_the_question(self, tmp_path: Path, text: str) -> None:
        row = {"question": text, "answer": "B"}
        (question,) = questions("alphamed", parquet_file(tmp_path / "train19k.parquet", [row]))
        assert question.text == "What is lost?"
        assert question.options == {
            "A": "Hearing",
            "B": "Sensation",
            "C": "B. subtilis",
            "D": "Vitamin A. No",
        }
        assert question.answers == ("B", "Sensation") and question.dataset == "alphamed"

    def test_the_last_run_of_letters_counts(self) -> None:
        stem, options = inline_options("Of blood groups\nA. and\nB. which is rare?\nA. AB\nB. O")
        assert stem == "Of blood groups\nA. and\nB. which is rare?"
        assert options == {"A": "AB", "B": "O"}

    def test_options_of_their_own(self, tmp_path: Path) -> None:
        row = {"question": "q?", "options": {"A": "x", "B": "y"}, "answer": "B"}
        (question,) = questions("alphamed", jsonl_file(tmp_path / "q.jsonl", [row]))
        assert question.answers == ("B", "y")

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ({"question": "What is lost?", "answer": "B"}, "the question holds no options"),
            (
                {"question": "q?\nA. x\nB. y", "answer": "C"},
                "answer 'C' is none of the options A, B",
            ),
        ],
    )
    def test_wrong_rows(self, tmp_path: Path, row: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=f"line 1: {message}"):
            questions("alphamed", jsonl_file(tmp_path / "q.jsonl", [row]))


def test_json_of_one_line_is_no_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "ori_pqal.json"
    path.write_text(json.dumps(PUBMEDQA) + "\n\n")
    assert len(questions("pubmedqa", str(path))) == 3
