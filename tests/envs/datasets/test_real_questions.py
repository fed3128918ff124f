"""The real question files that lie beside the checkout, where they do."""

import gzip
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from envs.datasets import hotpotqa, jsonl, medqa, mix, nq
from envs.types import Question
from retrieval.corpus import read_corpus

from .question_files import questions

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"
FILES = sorted(DATA.glob("*/*.jsonl"))

CORPORA = ("wiki/wiki_corpus.jsonl.gz", "medical/medical_corpus.jsonl.gz")

pytestmark = pytest.mark.skipif(not FILES, reason=f"no question files in {DATA}")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_loads_whole(path: Path) -> None:
    assert len(whole(path)) == path.read_bytes().count(b"\n")


@cache
def whole(path: Path) -> tuple[Question, ...]:
    """The questions of a file, read once for all tests."""
    return tuple(jsonl.build(jsonl.Config(str(path))).questions)


def stated() -> dict[str, int]:
    """File -> rows, of the table in SOURCES.md."""
    text = (DATA / "SOURCES.md").read_text()
    rows = re.findall(r"^\| (\w+/\w+\.jsonl) \| ([\d,]+) \|", text, re.MULTILINE)
    return {file: int(number.replace(",", "")) for file, number in rows}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_has_the_rows_that_its_sources_state(path: Path) -> None:
    # Training files are whole. The others are, or lack a random 20 to 25 % of their questions:
    # with four standard deviations of the smallest of them, 156 of 200, at most 37 %.
    rows = stated()[str(path.relative_to(DATA))]
    number = len(whole(path))
    assert number == rows or ("train" not in path.stem and 0.63 * rows < number < 0.86 * rows)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_right_letter_is_an_option(path: Path) -> None:
    for question in whole(path):
        if question.options is not None:
            assert question.options[question.answers[0]] == question.answers[1]
            assert list(question.options) == list("ABCDEFGH")[: len(question.options)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_set_of_the_folders_name_reads_it(path: Path) -> None:
    assert questions(path.parent.name, str(path), limit=200) == whole(path)[:200]


def with_sources() -> Iterator[Path]:
    """The files whose questions name the passages they were made from."""
    yield from (path for path in FILES if "with_corpus" in path.stem)
    yield from (path for path in FILES if path.parent.name in ("pubmedqa", "bioasq"))


@pytest.mark.slow
def test_every_source_passage_is_in_the_corpus() -> None:
    ids = {passage.id for name in CORPORA for passage in read_corpus(DATA / name).passages}
    named = {}
    for path in with_sources():
        found = whole(path)
        assert all(set(question.source_ids) <= ids for question in found)
        named[path.stem] = sum(bool(question.source_ids) for question in found) / len(found)
    assert len(named) == 8
    # BioASQ states 612 of 615 and 729 of 738.
    assert all(share == 1 for stem, share in named.items() if "bioasq" not in stem)
    assert min(named.values()) > 0.97


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_splits_near_the_share(path: Path) -> None:
    train, test = (
        len(jsonl.build(jsonl.Config(str(path), split=split)).questions)
        for split in ("train", "test")
    )
    share = test / (train + test)
    # Five standard deviations of a share of 0.2.
    assert abs(share - 0.2) < 5 * (0.16 / (train + test)) ** 0.5


def test_gzip_makes_no_difference(tmp_path: Path) -> None:
    path = DATA / "nq" / "nq_open_with_corpus.jsonl"
    packed = tmp_path / "nq.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert nq.build(nq.Config(str(packed))) == nq.build(nq.Config(str(path)))


def test_the_named_plugins_read_their_files() -> None:
    hotpot = hotpotqa.build(hotpotqa.Config(str(DATA / "hotpotqa/hotpotqa_with_corpus.jsonl")))
    assert all(len(q.supporting_titles) >= 2 for q in hotpot.questions)
    exam = medqa.build(medqa.Config(str(DATA / "medqa/medqa_us_test_4opt.jsonl")))
    assert all(list(q.options or {}) == list("ABCD") for q in exam.questions)


def test_two_files_mixed() -> None:
    parts = (
        f"nq={DATA / 'nq/nq_open_with_corpus.jsonl'}",
        f"hotpotqa={DATA / 'hotpotqa/hotpotqa_with_corpus.jsonl'}",
    )
    mixed = mix.build(mix.Config(parts, split="train", limit=200)).questions
    assert [question.dataset for question in mixed] == ["nq", "hotpotqa"] * 100
