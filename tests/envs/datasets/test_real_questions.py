"""The real question files that lie beside the checkout, where they do."""

import gzip
from pathlib import Path

import pytest

from envs.datasets import hotpotqa, jsonl, medqa, mix, nq

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"
FILES = sorted(DATA.glob("*/*.jsonl"))

pytestmark = pytest.mark.skipif(not FILES, reason=f"no question files in {DATA}")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_loads_whole(path: Path) -> None:
    questions = jsonl.build(jsonl.Config(str(path))).questions
    assert len(questions) == path.read_bytes().count(b"\n")


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
    questions = mix.build(mix.Config(parts, split="train", limit=200)).questions
    assert [question.dataset for question in questions] == ["nq", "hotpotqa"] * 100
