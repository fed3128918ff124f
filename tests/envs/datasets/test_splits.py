"""How a file is divided and limited."""

import json
import random
from pathlib import Path

import pytest

from envs.datasets import jsonl
from envs.question_files import Selection

ROWS = [{"id": f"q{n}", "question": f"question {n}?", "answers": ["a"]} for n in range(2_000)]


def write(path: Path, rows: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def ids(path: str, **settings: object) -> list[str]:
    return [q.id for q in jsonl.build(jsonl.Config(path, **settings)).questions]  # type: ignore[arg-type]


def test_the_side_is_the_hash_of_the_id() -> None:
    # sha256("q4") starts with 11, of 256: 0.07; sha256("q0") with 34: 0.204; sha256("q1") with c7.
    assert [Selection("test", 0.2).has(each) for each in ("q4", "q0", "q1")] == [True, False, False]
    assert [Selection("test", 0.21).has(each) for each in ("q4", "q0", "q1")] == [True, True, False]


def test_train_and_test_divide_all_at_the_share(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", ROWS)
    train, test = ids(path, split="train"), ids(path, split="test")
    assert sorted([*train, *test]) == sorted(ids(path))
    # 2,000 draws at 0.2: 400, standard deviation 18.
    assert abs(len(test) - 400) < 72


def test_a_larger_share_keeps_what_was_test(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", ROWS)
    small = set(ids(path, split="test", test_share=0.1))
    assert small < set(ids(path, split="test", test_share=0.3))


@pytest.mark.parametrize(("share", "side"), [(0.0, "train"), (1.0, "test")])
def test_the_extreme_shares(tmp_path: Path, share: float, side: str) -> None:
    path = write(tmp_path / "q.jsonl", ROWS)
    assert ids(path, split=side, test_share=share) == ids(path)


def test_order_and_other_rows_do_not_matter(tmp_path: Path) -> None:
    rows = ROWS[:500]
    random.Random(0).shuffle(rows)
    few, all_of_them = write(tmp_path / "few.jsonl", rows), write(tmp_path / "all.jsonl", ROWS)
    names = {row["id"] for row in rows}
    assert set(ids(few, split="test")) == set(ids(all_of_them, split="test")) & names


def test_the_limit_counts_what_is_left_of_the_split(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", ROWS)
    assert ids(path, split="test", limit=10) == ids(path, split="test")[:10]
    assert len(ids(path, limit=10_000)) == 2_000
