import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from retrieval.errors import InputError
from retrieval.rows import read_rows

COLUMNS = ("id", "title", "text")


def rows_of(path):
    return list(read_rows(path, COLUMNS))


def refusal(path):
    """The message with which the file is refused: one line that names the file."""
    with pytest.raises(InputError) as caught:
        rows_of(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def test_blank_lines_are_skipped_but_counted(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"id": 1}\n\n \t\r\n{"id": 2}')
    assert rows_of(path) == [("line 1", {"id": 1}), ("line 4", {"id": 2})]


def test_only_a_line_feed_ends_a_line(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": "a\u2028b\u0085c"}\n', encoding="utf-8")
    assert rows_of(path) == [("line 1", {"id": "a\u2028b\u0085c"})]


def test_a_byte_order_mark_is_dropped(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_bytes('\ufeff{"id": 1}\r\n{"id": 2}\r\n'.encode())
    assert [row for _, row in rows_of(path)] == [{"id": 1}, {"id": 2}]


def test_the_suffix_may_be_in_capitals(tmp_path):
    path = tmp_path / "C.JSONL.GZ"
    path.write_bytes(gzip.compress(b'{"id": 1}'))
    assert rows_of(path) == [("line 1", {"id": 1})]


def test_parquet_rows_are_counted_across_batches_and_other_columns_left_out(tmp_path):
    path = tmp_path / "c.parquet"
    ids = [str(number) for number in range(5000)]
    pq.write_table(pa.table({"id": ids, "embedding": [[0.5, 1.5]] * 5000}), path)
    rows = rows_of(path)
    assert rows[4999] == ("row 5000", {"id": "4999"})
    assert len(rows) == 5000


def test_a_missing_file(tmp_path):
    assert "no such file" in refusal(tmp_path / "none.jsonl")


def test_a_folder(tmp_path):
    path = tmp_path / "folder.jsonl"
    path.mkdir()
    assert "not a file" in refusal(path)


@pytest.mark.parametrize("name", ["c.csv", "c.json", "c.gz", "jsonl"])
def test_an_unknown_suffix_lists_the_known_ones(tmp_path, name):
    path = tmp_path / name
    path.touch()
    assert ".jsonl, .jsonl.gz, .parquet" in refusal(path)


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (b'{"id": x}', "line 2: not JSON (Expecting value at character 8)"),
        (b"{'id': 1}", "line 2: not JSON"),
        (b"[" * 100_000, "line 2: not JSON"),  # deeper than the parser's recursion limit
        (b"1" * 5000, "line 2: not JSON"),  # longer than Python's limit on integers
        (b'{"id": "\xff"}', "line 2: invalid UTF-8 at byte 9"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, cause):
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"id": 1}\n' + line + b"\n")
    assert cause in refusal(path)


DAMAGE = {
    "cut short": lambda packed: packed[:-9],  # EOFError
    "overwritten": lambda packed: packed[:10] + b"\xff" * 40 + packed[50:],  # zlib.error
    "wrong checksum": lambda packed: packed[:-8] + bytes(8),  # BadGzipFile
    "not gzip": lambda packed: b"plain text",  # BadGzipFile
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_gzip(tmp_path, damage):
    lines = "".join(
        json.dumps({"id": number, "text": f"{number**3}"}) + "\n" for number in range(999)
    )
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(damage(gzip.compress(lines.encode())))
    assert "truncated or corrupt gzip after line" in refusal(path)


def test_a_file_that_is_not_parquet(tmp_path):
    path = tmp_path / "c.parquet"
    path.write_bytes(b"PAR1 no, it is not")
    assert "cannot be read as Parquet after row 0" in refusal(path)


def test_a_damaged_parquet_page(tmp_path):
    path = tmp_path / "c.parquet"
    pq.write_table(pa.table({"id": [str(number) for number in range(5000)]}), path)
    whole = bytearray(path.read_bytes())
    whole[4:2000] = b"\xff" * 1996
    path.write_bytes(whole)
    assert "cannot be read as Parquet after row 0" in refusal(path)


def test_parquet_without_a_known_column(tmp_path):
    path = tmp_path / "c.parquet"
    pq.write_table(pa.table({"docid": ["1"], "passage": ["x"]}), path)
    assert "has the columns docid, passage; rename to id, title, text" in refusal(path)


def test_parquet_with_invalid_utf8(tmp_path):
    path = tmp_path / "c.parquet"
    raw = pa.array([b"fine", b"\xff\xfe"], type=pa.binary())
    pq.write_table(pa.table({"id": pa.Array.from_buffers(pa.string(), 2, raw.buffers())}), path)
    assert "invalid UTF-8" in refusal(path)
