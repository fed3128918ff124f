import gzip
import hashlib
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.corpus import Corpus, read_corpus
from retrieval.errors import InputError
from retrieval.types import Passage

SCHEMAS = {
    "plain": lambda p: {"id": p.id, "title": p.title, "text": p.text},
    "search_r1": lambda p: {"id": p.id, "contents": f'"{p.title}"\n{p.text}'},
    "medrag": lambda p: {
        "id": p.id,
        "title": p.title,
        "content": p.text,
        "contents": f"{p.title}. {p.text}",
    },
}


def write_jsonl(rows, path):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_gzip(rows, path):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_parquet(rows, path):
    pq.write_table(pa.Table.from_pylist(rows), path)


FORMATS = {".jsonl": write_jsonl, ".jsonl.gz": write_gzip, ".parquet": write_parquet}


def refusal(tmp_path, *rows):
    """The message that a file of these rows is refused with."""
    path = tmp_path / "c.jsonl"
    write_jsonl(rows, path)
    with pytest.raises(InputError) as caught:
        read_corpus(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


GOOD = {"id": "a", "title": "T", "text": "x"}

passages_strategy = st.lists(
    st.builds(
        Passage,
        id=st.text(min_size=1, max_size=5),
        title=st.text(max_size=10).map(lambda title: title.replace("\n", " ")),
        text=st.text(min_size=1, max_size=30).filter(str.strip),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda passage: passage.id,
)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(passages=passages_strategy)
def test_every_format_and_schema_gives_the_same_corpus(passages):
    generated = Corpus.of(passages)
    with tempfile.TemporaryDirectory() as folder:
        for schema in SCHEMAS.values():
            for suffix, write in FORMATS.items():
                path = Path(folder, f"c{suffix}")
                write([schema(passage) for passage in passages], path)
                corpus = read_corpus(path)
                assert corpus == generated
                assert corpus.passages == generated.passages


def test_the_fingerprint_is_the_documented_encoding():
    # Each part with its length in 8 bytes before it: id "a", title "", text "é" (2 bytes in UTF-8).
    encoding = bytes([0] * 7 + [1]) + b"a" + bytes(8) + bytes([0] * 7 + [2]) + b"\xc3\xa9"
    expected = "sha256:" + hashlib.sha256(encoding).hexdigest()
    assert Corpus.of([Passage("a", "", "é")]).fingerprint == expected


@pytest.mark.parametrize(
    "other",
    [
        [Passage("a", "b", "c"), Passage("d", "e", "g")],  # another text
        [Passage("d", "e", "f"), Passage("a", "b", "c")],  # another order
        [Passage("a", "bc", ""), Passage("d", "e", "f")],  # the same characters, other borders
        [Passage("a", "b", "c")],
    ],
)
def test_other_passages_have_another_fingerprint(other):
    corpus = Corpus.of([Passage("a", "b", "c"), Passage("d", "e", "f")])
    assert Corpus.of(other) != corpus


def test_a_corpus_prints_without_its_passages():
    assert "Paris" not in repr(Corpus.of([Passage("a", "Paris", "Paris")]))


def test_an_integer_id_is_text_in_every_format(tmp_path):
    for suffix, write in FORMATS.items():
        path = tmp_path / f"c{suffix}"
        write([{**GOOD, "id": 7}], path)
        assert read_corpus(path).passages == (Passage("7", "T", "x"),)


@pytest.mark.parametrize(
    ("contents", "title", "text"),
    [
        ('"Paris"\nA city.\nIn France.', "Paris", "A city.\nIn France."),
        ('""Foo" (song)"\nIt is.', '"Foo" (song)', "It is."),
        ("Paris\nA city.", "Paris", "A city."),
        ('"Paris"\r\nA city.', "Paris", "A city."),
        ('""\nA city.', "", "A city."),
        ('"\nA city.', '"', "A city."),
    ],
)
def test_search_r1_contents(tmp_path, contents, title, text):
    path = tmp_path / "c.jsonl"
    write_jsonl([{"id": "a", "contents": contents}], path)
    assert read_corpus(path).passages == (Passage("a", title, text),)


def test_the_progress_bar_stays_off_where_stderr_is_no_terminal(tmp_path, capsys):
    path = tmp_path / "c.jsonl"
    write_jsonl([GOOD], path)
    read_corpus(path, progress=True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        ([1], "a row must be an object"),
        (None, "a row must be an object"),
        ({"title": "T", "text": "x"}, "field 'id' is missing"),
        ({**GOOD, "id": None}, "field 'id' is missing"),
        ({**GOOD, "id": ""}, "field 'id' is empty"),
        ({**GOOD, "id": True}, "field 'id' must be a string, not boolean"),
        ({**GOOD, "id": 1.5}, "field 'id' must be a string, not number"),
        ({"id": "b", "text": "x"}, "field 'title' is missing"),
        ({**GOOD, "title": 1984}, "field 'title' must be a string, not number"),
        ({**GOOD, "text": ["x"]}, "field 'text' must be a string, not array"),
        ({**GOOD, "text": " \n"}, "field 'text' holds no text"),
        ({"id": "b", "title": "T", "content": ""}, "field 'content' holds no text"),
        ({"id": "b", "contents": "title alone"}, "field 'contents' holds no text"),
        ({"id": "b", "body": "x"}, "no text: a row is"),
        ({}, "field 'id' is missing"),
        ({**GOOD, "text": "\ud800"}, "field 'text' is not valid Unicode"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, row, cause):
    first = {"id": "first", "title": "", "text": "x"}
    assert refusal(tmp_path, first, row).startswith(f"line 2: {cause}")


def test_a_repeated_id_names_both_lines(tmp_path):
    message = refusal(tmp_path, GOOD, {**GOOD, "id": "b"}, GOOD)
    assert message.startswith("line 3: id 'a' stands at line 1 already")


def test_an_integer_and_a_string_may_spell_the_same_id(tmp_path):
    assert "id '1' stands at line 1" in refusal(tmp_path, {**GOOD, "id": 1}, {**GOOD, "id": "1"})


def test_a_wrong_parquet_row_is_named(tmp_path):
    path = tmp_path / "c.parquet"
    write_parquet([GOOD, {"id": "b", "title": None, "text": "x"}], path)
    with pytest.raises(InputError, match="row 2: field 'title' is missing"):
        read_corpus(path)


@pytest.mark.parametrize(("suffix", "write"), FORMATS.items())
def test_an_empty_file_is_no_corpus(tmp_path, suffix, write):
    path = tmp_path / f"c{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.table({"id": pa.array([], pa.string())}), path)
    else:
        write([], path)
    with pytest.raises(InputError, match="no passages"):
        read_corpus(path)


def test_passages_made_in_memory_are_checked_too():
    with pytest.raises(InputError, match="the corpus is empty"):
        Corpus.of([])
    with pytest.raises(InputError, match="passage id 'a' occurs twice"):
        Corpus.of([Passage("a", "", "x"), Passage("b", "", "x"), Passage("a", "", "y")])
    with pytest.raises(InputError, match="passage 'a' is not valid Unicode"):
        Corpus.of([Passage("a", "", "\udfff")])
