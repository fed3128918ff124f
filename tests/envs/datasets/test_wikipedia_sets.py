"""TriviaQA, PopQA, 2WikiMultihopQA, MuSiQue and Bamboogle, in rows as published."""

import json
from pathlib import Path
from typing import Any

import pytest

from envs.types import Question
from retrieval import plugins
from retrieval.errors import InputError

from .question_files import json_file, jsonl_file, parquet_file, questions, table_file

# samples/triviaqa_sample.json of mandarjoshi90/triviaqa, shortened.
TRIVIAQA = {
    "Data": [
        {
            "Answer": {
                "Aliases": ["Sunset Blvd", "West Sunset Boulevard", "Sunset Boulevard"],
                "MatchedWikiEntityName": "Sunset Boulevard",
                "NormalizedAliases": ["west sunset boulevard", "sunset blvd"],
                "NormalizedValue": "sunset boulevard",
                "Type": "WikipediaEntity",
                "Value": "Sunset Boulevard",
            },
            "EntityPages": [{"DocSource": "TagMe", "Title": "Andrew Lloyd Webber"}],
            "Question": "Which Lloyd Webber musical premiered in the US on 10th December 1993?",
            "QuestionId": "tc_33",
            "QuestionSource": "http://www.triviacountry.com/",
            "SearchResults": [{"Rank": 0, "Title": "The official website"}],
        }
    ],
    "Domain": "Web",
    "VerifiedEval": False,
    "Version": 1.0,
}
MUSICAL = Question(
    "tc_33",
    "Which Lloyd Webber musical premiered in the US on 10th December 1993?",
    ("Sunset Boulevard", "Sunset Blvd", "West Sunset Boulevard"),
    dataset="triviaqa",
)


class TestTriviaQA:
    def test_official(self, tmp_path: Path) -> None:
        assert questions("triviaqa", json_file(tmp_path / "web-dev.json", TRIVIAQA)) == (MUSICAL,)

    def test_columns_of_the_hub(self, tmp_path: Path) -> None:
        (row,) = TRIVIAQA["Data"]  # type: ignore[misc]
        columns = {
            "question": row["Question"],  # type: ignore[index]
            "question_id": "tc_33",
            "entity_pages": {"title": ["Andrew Lloyd Webber"]},
            "answer": {
                "aliases": ["Sunset Blvd", "West Sunset Boulevard", "Sunset Boulevard"],
                "normalized_aliases": ["sunset blvd"],
                "value": "Sunset Boulevard",
            },
        }
        path = parquet_file(tmp_path / "validation.parquet", [columns])
        assert questions("triviaqa", path) == (MUSICAL,)
        columns["answer"] = {"aliases": [], "normalized_aliases": [], "value": "<unk>"}
        with pytest.raises(InputError, match="row 1: no answers"):
            questions("triviaqa", parquet_file(tmp_path / "test.parquet", [columns]))

    def test_a_test_file_without_answers_is_refused(self, tmp_path: Path) -> None:
        (row,) = TRIVIAQA["Data"]  # type: ignore[misc]
        bare = {key: value for key, value in row.items() if key != "Answer"}  # type: ignore[union-attr]
        path = json_file(tmp_path / "web-test.json", {"Data": [bare]})
        with pytest.raises(InputError, match=r"web-test.json: item 1: no answers"):
            questions("triviaqa", path)

    def test_a_broken_answer_names_its_shape(self, tmp_path: Path) -> None:
        row = {"QuestionId": "1", "Question": "q?", "Answer": "x"}
        path = json_file(tmp_path / "t.json", {"Data": [row]})
        with pytest.raises(
            InputError, match=r"item 1: the answer must be .Value, Aliases., not 'x'"
        ):
            questions("triviaqa", path)

    def test_another_object_says_what_it_holds(self, tmp_path: Path) -> None:
        path = json_file(tmp_path / "t.json", {"Version": 1.0, "Rows": []})
        with pytest.raises(InputError, match="no subset 'Data' of questions by id; it has Version"):
            questions("triviaqa", path)


POPQA = {
    "id": 4222362,
    "subj": "George Rankin",
    "prop": "occupation",
    "obj": "politician",
    "s_aliases": '["George James Rankin"]',
    "s_wiki_title": "George Rankin",
    "o_wiki_title": "Politician",
    "s_pop": 142,
    "question": "What is George Rankin's occupation?",
    "possible_answers": '["politician", "political leader", "polit."]',
}
RANKIN = Question(
    "4222362",
    "What is George Rankin's occupation?",
    ("politician", "political leader", "polit."),
    supporting_titles=("George Rankin",),
    dataset="popqa",
)


class TestPopQA:
    @pytest.mark.parametrize("name", ["test.tsv", "popqa.csv"])
    def test_the_publishers_table(self, tmp_path: Path, name: str) -> None:
        rows = [list(POPQA), [str(value) for value in POPQA.values()]]
        assert questions("popqa", table_file(tmp_path / name, rows)) == (RANKIN,)

    def test_rows_of_the_hub(self, tmp_path: Path) -> None:
        listed = {**POPQA, "possible_answers": json.loads(str(POPQA["possible_answers"]))}
        for path in (
            jsonl_file(tmp_path / "test.jsonl", [POPQA]),
            jsonl_file(tmp_path / "listed.jsonl", [listed]),
            parquet_file(tmp_path / "test.parquet", [POPQA]),
        ):
            assert questions("popqa", path) == (RANKIN,)

    def test_flashrag(self, tmp_path: Path) -> None:
        row = {
            "id": "test_10207",
            "question": "Who was the composer of Easy Living?",
            "metadata": {"subj": "Easy Living", "s_wiki_title": "Easy Living (1937 film)"},
            "golden_answers": ["Ralph Rainger", "Ralph Reichenthal"],
        }
        (question,) = questions("popqa", jsonl_file(tmp_path / "test.jsonl", [row]))
        assert question.id == "test_10207" and question.answers[0] == "Ralph Rainger"
        assert question.supporting_titles == ("Easy Living (1937 film)",)

    def test_wrong_rows(self, tmp_path: Path) -> None:
        path = jsonl_file(tmp_path / "q.jsonl", [{**POPQA, "possible_answers": "['a']"}])
        with pytest.raises(InputError, match="line 1: possible_answers is no JSON list: "):
            questions("popqa", path)
        path = table_file(tmp_path / "q.tsv", [list(POPQA)[:2], list(POPQA)[:1]])
        with pytest.raises(InputError, match=r"q.tsv: line 2: 1 cells where 2 belong .id, subj."):
            questions("popqa", path)

    def test_an_empty_table(self, tmp_path: Path) -> None:
        (tmp_path / "q.tsv").write_text("")
        with pytest.raises(InputError, match="no questions; the file is empty"):
            questions("popqa", str(tmp_path / "q.tsv"))

    def test_a_table_in_another_encoding(self, tmp_path: Path) -> None:
        (tmp_path / "q.tsv").write_bytes("id\tquestion\n1\tWo ist Köln?\n".encode("latin-1"))
        with pytest.raises(InputError, match=r"q.tsv: not a table in UTF-8"):
            questions("popqa", str(tmp_path / "q.tsv"))


# The row that the official README and others show.
TWO_WIKI = {
    "_id": "8813f87c0bdd11eba7f7acde48001122",
    "type": "compositional",
    "question": "Who is the mother of the director of film Polish-Russian War (Film)?",
    "context": [
        ["Maheen Khan", ["Maheen Khan is a Pakistani fashion designer.", " She is known."]],
        ["Xawery Żuławski", ["Xawery Żuławski is a film director."]],
    ],
    "supporting_facts": [["Polish-Russian War (film)", 1], ["Xawery Żuławski", 2]],
    "evidences": [["Polish-Russian War", "director", "Xawery Żuławski"]],
    "answer": "Małgorzata Braunek",
}


class TestTwoWikiMultihopQA:
    expected = Question(
        "8813f87c0bdd11eba7f7acde48001122",
        "Who is the mother of the director of film Polish-Russian War (Film)?",
        ("Małgorzata Braunek",),
        supporting_titles=("Polish-Russian War (film)", "Xawery Żuławski"),
        dataset="2wikimultihopqa",
    )

    def test_official(self, tmp_path: Path) -> None:
        path = json_file(tmp_path / "dev.json", [TWO_WIKI])
        assert questions("2wikimultihopqa", path) == (self.expected,)

    def test_columns_of_the_hub(self, tmp_path: Path) -> None:
        row: dict[str, Any] = {
            "id": TWO_WIKI["_id"],
            "question": TWO_WIKI["question"],
            "answer": TWO_WIKI["answer"],
            "supporting_facts": {
                "title": ["Polish-Russian War (film)", "Xawery Żuławski"],
                "sent_id": [1, 2],
            },
            "context": {"title": ["Maheen Khan"], "sentences": [["Maheen Khan is."]]},
        }
        path = parquet_file(tmp_path / "validation.parquet", [row])
        assert questions("2wikimultihopqa", path) == (self.expected,)

    def test_the_contexts_become_the_corpus(self, tmp_path: Path) -> None:
        plugin = plugins.load("envs.datasets", "2wikimultihopqa")
        path = json_file(tmp_path / "dev.json", [TWO_WIKI])
        dataset = plugin.build(plugin.Config(path, context_corpus=True))
        assert [(passage.title, passage.text) for passage in dataset.passages] == [
            ("Maheen Khan", "Maheen Khan is a Pakistani fashion designer. She is known."),
            ("Xawery Żuławski", "Xawery Żuławski is a film director."),
        ]
        assert all(passage.id.startswith("2wikimultihopqa-") for passage in dataset.passages)


MUSIQUE = {
    "id": "2hop__482757_12019",
    "paragraphs": [
        {"idx": 0, "title": "Hoxton", "paragraph_text": "A district.", "is_supporting": False},
        {"idx": 1, "title": "Green (album)", "paragraph_text": "An album.", "is_supporting": True},
        {"idx": 2, "title": "Steve Hillage", "paragraph_text": " He plays.", "is_supporting": True},
    ],
    "question": "Who is the spouse of the Green performer?",
    "question_decomposition": [{"id": 482757, "question": "Green >> performer"}],
    "answer": "Miquette Giraudy",
    "answer_aliases": ["Giraudy", "Miquette Giraudy"],
    "answerable": True,
}


class TestMuSiQue:
    expected = Question(
        "2hop__482757_12019",
        "Who is the spouse of the Green performer?",
        ("Miquette Giraudy", "Giraudy"),
        supporting_titles=("Green (album)", "Steve Hillage"),
        dataset="musique",
    )

    def test_official_and_hub(self, tmp_path: Path) -> None:
        for path in (
            jsonl_file(tmp_path / "musique_ans_v1.0_dev.jsonl", [MUSIQUE]),
            parquet_file(tmp_path / "validation.parquet", [MUSIQUE]),
        ):
            assert questions("musique", path) == (self.expected,)

    def test_unanswerable_questions_are_left_out_and_counted(self, tmp_path: Path) -> None:
        rows = [{**MUSIQUE, "answerable": False}, MUSIQUE, {**MUSIQUE, "answerable": False}]
        path = jsonl_file(tmp_path / "musique_full_v1.0_dev.jsonl", rows)
        with pytest.warns(UserWarning, match=r"dev.jsonl: rows left out: 2 unanswerable$"):
            assert questions("musique", path) == (self.expected,)
        path = jsonl_file(tmp_path / "none.jsonl", rows[:1])
        with pytest.raises(
            InputError, match="no questions; every row was left out: 1 unanswerable"
        ):
            questions("musique", path)

    def test_the_paragraphs_become_the_corpus(self, tmp_path: Path) -> None:
        plugin = plugins.load("envs.datasets", "musique")
        path = jsonl_file(tmp_path / "dev.jsonl", [MUSIQUE, {**MUSIQUE, "id": "2"}])
        dataset = plugin.build(plugin.Config(path, context_corpus=True, limit=1))
        assert [(passage.title, passage.text) for passage in dataset.passages] == [
            ("Hoxton", "A district."),
            ("Green (album)", "An album."),
            ("Steve Hillage", "He plays."),
        ]

    def test_broken_paragraphs(self, tmp_path: Path) -> None:
        path = jsonl_file(tmp_path / "q.jsonl", [{**MUSIQUE, "paragraphs": [{"title": "x"}]}])
        with pytest.raises(InputError, match=r"line 1: paragraphs must be ..title, is_supporting"):
            questions("musique", path)


class TestBamboogle:
    @pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
    def test_official(self, tmp_path: Path, kind: str) -> None:
        text, answer = "Who was president when Citibank, N.A., was founded?", "James Madison"
        row = {"Question": text, "Answer": answer}
        path = {
            "csv": lambda: table_file(tmp_path / "b.csv", [["Question", "Answer"], [text, answer]]),
            "json": lambda: json_file(tmp_path / "b.json", [row]),
            "parquet": lambda: parquet_file(tmp_path / "b.parquet", [row]),
        }[kind]()
        (question,) = questions("bamboogle", path)
        assert (question.text, question.answers) == (text, (answer,))
        assert question.id.startswith("bamboogle-") and question.dataset == "bamboogle"
