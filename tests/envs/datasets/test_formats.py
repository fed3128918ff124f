"""Every publisher's format, in rows as the publishers write them."""

from pathlib import Path
from typing import Any

import pytest

from envs.datasets import hotpotqa, jsonl, medqa, mix, nq
from envs.types import Question
from retrieval.errors import InputError
from retrieval.types import Passage

from .question_files import Rows, json_file, jsonl_file, parquet_file

PLAIN = {
    "id": "nq-dev-0",
    "question": "when was the last time anyone was on the moon",
    "answers": ["14 December 1972 UTC", "December 1972"],
    "options": None,
    "supporting_titles": ["Moon landing"],
    "dataset": "nq",
    "split": "dev",
    "meta": {"gold_ids": ["nqgold-dd2424d55ec9"]},
}
MOON = Question(
    id="nq-dev-0",
    text="when was the last time anyone was on the moon",
    answers=("14 December 1972 UTC", "December 1972"),
    supporting_titles=("Moon landing",),
    source_ids=("nqgold-dd2424d55ec9",),
    dataset="nq",
)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
@pytest.mark.parametrize("plugin", [jsonl, nq, hotpotqa, medqa])
def test_our_own_format_is_read_by_every_plugin(tmp_path: Path, plugin: Any, name: str) -> None:
    path = jsonl_file(tmp_path / name, [PLAIN])
    assert plugin.build(plugin.Config(path=path)).questions == (MOON,)


def test_source_ids_may_stand_at_the_top(tmp_path: Path) -> None:
    row = {**PLAIN, "source_ids": ["a", "b", "a"]}
    (question,) = jsonl.build(jsonl.Config(jsonl_file(tmp_path / "q.jsonl", [row]))).questions
    assert question.source_ids == ("a", "b")
    (question,) = jsonl.build(jsonl.Config(parquet_file(tmp_path / "q.parquet", [row]))).questions
    assert question.source_ids == ("a", "b")
    path = jsonl_file(tmp_path / "w.jsonl", [{**PLAIN, "source_ids": 7}])
    with pytest.raises(InputError, match="line 1: source_ids must be a text or a list of texts"):
        jsonl.build(jsonl.Config(path))


@pytest.mark.parametrize("plugin", [jsonl, medqa, mix])
def test_rules_are_given_to_every_question(tmp_path: Path, plugin: Any) -> None:
    path = jsonl_file(tmp_path / "q.jsonl", [PLAIN, {**PLAIN, "id": "2"}])
    given = {"parts": (f"nq={path}",)} if plugin is mix else {"path": path}
    for rules in ((), ("strict_queries", "exclude_sources")):
        questions = plugin.build(plugin.Config(**given, rules=rules)).questions
        assert [question.rules for question in questions] == [rules, rules]
        assert [question.source_ids for question in questions] == [MOON.source_ids] * 2
    with pytest.raises(InputError, match="rules: unknown 'strict'; choose of novel_only, strict_"):
        plugin.build(plugin.Config(**given, rules=("strict",)))


def test_our_own_format_with_options(tmp_path: Path) -> None:
    row = {
        "id": "bioasq-1",
        "question": "Do only changes in coding regions matter?",
        "answers": ["B", "no"],
        "options": {"A": "yes", "B": "no"},
        "supporting_titles": None,
        "dataset": "bioasq",
    }
    (question,) = jsonl.build(jsonl.Config(jsonl_file(tmp_path / "q.jsonl", [row]))).questions
    assert question.answers == ("B", "no")
    assert question.options == {"A": "yes", "B": "no"}
    assert question.supporting_titles == ()


def test_a_row_that_names_no_dataset_gets_the_plugins_name(tmp_path: Path) -> None:
    path = jsonl_file(tmp_path / "q.jsonl", [{"id": 7, "question": "q?", "answers": ["a"]}])
    (question,) = jsonl.build(jsonl.Config(path)).questions
    assert (question.id, question.dataset) == ("7", "jsonl")


class TestNaturalQuestions:
    def test_nq_open_has_no_ids(self, tmp_path: Path) -> None:
        rows = [
            {"question": "who sings love will keep us alive", "answer": ["Timothy B. Schmit"]},
            {"question": "where is the moon", "answer": ["in the sky", "sky"]},
        ]
        first = nq.build(nq.Config(jsonl_file(tmp_path / "a.jsonl", rows))).questions
        assert [q.answers for q in first] == [("Timothy B. Schmit",), ("in the sky", "sky")]
        assert all(q.id.startswith("nq-") and len(q.id) == 19 for q in first)
        # Ids come from the content: another order gives the same ones.
        again = nq.build(nq.Config(jsonl_file(tmp_path / "b.jsonl", rows[::-1]))).questions
        assert {q.id: q for q in first} == {q.id: q for q in again}

    def test_a_repeated_row_without_id_stays_on_its_side(self, tmp_path: Path) -> None:
        rows: Rows = [{"question": f"q {n}", "answer": ["a"]} for n in range(20)] * 3
        path = jsonl_file(tmp_path / "a.jsonl", rows)
        sides = [nq.build(nq.Config(path, split=s, test_share=0.5)) for s in ("train", "test")]
        texts = [{q.text for q in side.questions} for side in sides]
        assert not texts[0] & texts[1]
        assert sum(len(side.questions) for side in sides) == 60
        ids = [q.id for side in sides for q in side.questions]
        assert len(set(ids)) == 60 and sum(each.endswith("-3") for each in ids) == 20

    def test_flashrag(self, tmp_path: Path) -> None:
        rows = [{"id": "test_0", "question": "who?", "golden_answers": ["me", "myself"]}]
        expected = (Question("test_0", "who?", ("me", "myself"), dataset="nq"),)
        for path in (
            jsonl_file(tmp_path / "test.jsonl", rows),
            parquet_file(tmp_path / "test.parquet", rows),
            json_file(tmp_path / "test.json", rows),
            json_file(tmp_path / "test.json.gz", rows),
        ):
            assert nq.build(nq.Config(path)).questions == expected

    def test_search_r1_with_all_columns(self, tmp_path: Path) -> None:
        # Its training file joins NQ and HotpotQA, whose ids are the same.
        rows = [
            {
                "id": "train_0",
                "question": f"total number of {source}s",
                "golden_answers": ["48"],
                "data_source": source,
                "prompt": [{"role": "user", "content": "Answer ... Question: other?\n"}],
                "ability": "fact-reasoning",
                "reward_model": {"ground_truth": {"target": ["48"]}, "style": "rule"},
                "extra_info": {"index": 0, "split": "train"},
            }
            for source in ("nq", "hotpotqa")
        ]
        path = parquet_file(tmp_path / "train.parquet", rows)
        assert nq.build(nq.Config(path)).questions == (
            Question("nq-train_0", "total number of nqs", ("48",), dataset="nq"),
            Question("hotpotqa-train_0", "total number of hotpotqas", ("48",), dataset="hotpotqa"),
        )

    def test_search_r1_with_the_prompt_only(self, tmp_path: Path) -> None:
        instructions = "For example, <answer> Beijing </answer>. Question: who sang it?\n"
        rows = [
            {
                "data_source": "nq",
                "prompt": [{"role": "user", "content": instructions}],
                "reward_model": {"ground_truth": {"target": ["Ann", "Bo"]}, "style": "rule"},
            }
        ]
        path = parquet_file(tmp_path / "train.parquet", rows)
        (question,) = nq.build(nq.Config(path)).questions
        assert (question.text, question.answers) == ("who sang it?", ("Ann", "Bo"))


OFFICIAL = {
    "_id": "5a8b57f25542995d1e6f1371",
    "question": "Were Scott Derrickson and Ed Wood of the same nationality?",
    "answer": "yes",
    "type": "comparison",
    "level": "hard",
    "supporting_facts": [["Scott Derrickson", 0], ["Ed Wood", 0], ["Scott Derrickson", 1]],
    "context": [
        ["Ed Wood (film)", ["Ed Wood is a 1994 film.", " It is a comedy."]],
        ["Scott Derrickson", ["Scott Derrickson is a director."]],
        ["Ed Wood", ["Ed Wood was a filmmaker."]],
    ],
}
COLUMNS = {
    "id": OFFICIAL["_id"],
    "question": OFFICIAL["question"],
    "answer": "yes",
    "type": "comparison",
    "level": "hard",
    "supporting_facts": {
        "title": ["Scott Derrickson", "Ed Wood", "Scott Derrickson"],
        "sent_id": [0, 0, 1],
    },
    "context": {
        "title": ["Ed Wood (film)", "Scott Derrickson", "Ed Wood"],
        "sentences": [
            ["Ed Wood is a 1994 film.", " It is a comedy."],
            ["Scott Derrickson is a director."],
            ["Ed Wood was a filmmaker."],
        ],
    },
}
FLASHRAG = {
    "id": OFFICIAL["_id"],
    "question": OFFICIAL["question"],
    "golden_answers": ["yes"],
    "metadata": {key: COLUMNS[key] for key in ("type", "level", "supporting_facts", "context")},
}
DERRICKSON = Question(
    id="5a8b57f25542995d1e6f1371",
    text="Were Scott Derrickson and Ed Wood of the same nationality?",
    answers=("yes",),
    supporting_titles=("Scott Derrickson", "Ed Wood"),
    dataset="hotpotqa",
)


class TestHotpotQA:
    @pytest.fixture(
        params=["official", "columns", "columns parquet", "flashrag", "flashrag parquet"]
    )
    def path(self, request: pytest.FixtureRequest, tmp_path: Path) -> str:
        if request.param == "official":
            return json_file(tmp_path / "hotpot_dev_distractor_v1.json", [OFFICIAL])
        row = COLUMNS if request.param.startswith("columns") else FLASHRAG
        if request.param.endswith("parquet"):
            return parquet_file(tmp_path / "dev.parquet", [row])
        return jsonl_file(tmp_path / "dev.jsonl", [row])

    def test_all_formats_give_the_same_question(self, path: str) -> None:
        dataset = hotpotqa.build(hotpotqa.Config(path))
        assert dataset.questions == (DERRICKSON,)
        assert dataset.passages is None

    def test_the_contexts_become_the_corpus(self, path: str) -> None:
        passages = hotpotqa.build(hotpotqa.Config(path, context_corpus=True)).passages
        assert passages is not None
        assert [(passage.title, passage.text) for passage in passages] == [
            ("Ed Wood (film)", "Ed Wood is a 1994 film. It is a comedy."),
            ("Scott Derrickson", "Scott Derrickson is a director."),
            ("Ed Wood", "Ed Wood was a filmmaker."),
        ]
        assert all(passage.id.startswith("hotpotqa-") for passage in passages)

    def test_the_corpus_is_the_whole_file_without_repeats(self, tmp_path: Path) -> None:
        other = {**OFFICIAL, "_id": "2", "context": [["Ed Wood", ["Ed Wood was a filmmaker."]]]}
        more = {**OFFICIAL, "_id": "3", "context": [["Ulm", ["Ulm is a city."]]]}
        path = json_file(tmp_path / "h.json", [OFFICIAL, other, more])
        dataset = hotpotqa.build(hotpotqa.Config(path, context_corpus=True, limit=1))
        assert len(dataset.questions) == 1
        passages: Any = dataset.passages
        assert len(passages) == 4
        assert passages[-1] == Passage(passages[-1].id, "Ulm", "Ulm is a city.")


MEDQA = {
    "question": "A nerve is cut. What is lost?",
    "answer": "Sensation",
    "options": {"A": "Hearing", "B": "Sensation", "C": "Sight", "D": "Smell"},
    "meta_info": "step1",
    "answer_idx": "B",
}


class TestMedQA:
    def test_official(self, tmp_path: Path) -> None:
        path = jsonl_file(tmp_path / "phrases_no_exclude_test.jsonl", [MEDQA])
        (question,) = medqa.build(medqa.Config(path)).questions
        assert question.text == "A nerve is cut. What is lost?"
        assert question.answers == ("B", "Sensation")
        assert question.options == MEDQA["options"]
        assert question.dataset == "medqa"

    def test_texts_that_are_letters(self, tmp_path: Path) -> None:
        row = {**MEDQA, "options": {letter: letter for letter in "ABCD"}}
        (question,) = medqa.build(medqa.Config(jsonl_file(tmp_path / "q.jsonl", [row]))).questions
        assert question.answers == ("B", "B")

    def test_options_as_key_and_value(self, tmp_path: Path) -> None:
        listed = [{"key": key, "value": value} for key, value in MEDQA["options"].items()]
        path = parquet_file(tmp_path / "test.parquet", [{**MEDQA, "options": listed}])
        (question,) = medqa.build(medqa.Config(path)).questions
        assert question.answers == ("B", "Sensation") and question.options == MEDQA["options"]

    def test_parquet_with_nulls_for_letters_of_other_rows(self, tmp_path: Path) -> None:
        five = {**MEDQA, "question": "Five?", "options": {**MEDQA["options"], "E": "Taste"}}
        path = parquet_file(tmp_path / "test.parquet", [MEDQA, five])
        four, more = medqa.build(medqa.Config(path)).questions
        assert list(four.options or {}) == list("ABCD") and list(more.options or {}) == list(
            "ABCDE"
        )

    def test_mirage_holds_several_sets(self, tmp_path: Path) -> None:
        benchmark = {
            "medqa": {"0000": {"question": "q0?", "options": MEDQA["options"], "answer": "B"}},
            "pubmedqa": {
                "123": {
                    "question": "Does it?",
                    "options": {"A": "yes", "B": "no", "C": "maybe"},
                    "answer": "C",
                    "PMID": [123],
                }
            },
        }
        path = json_file(tmp_path / "benchmark.json", benchmark)
        (first,) = medqa.build(medqa.Config(path)).questions
        assert (first.id, first.dataset) == ("0000", "medqa")
        assert first.answers == ("B", "Sensation")
        (other,) = medqa.build(medqa.Config(path, subset="pubmedqa")).questions
        assert (other.id, other.dataset) == ("123", "pubmedqa")
        assert other.answers == ("C", "maybe")
