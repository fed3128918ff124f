"""How a file is divided and limited."""

import hashlib
import json
import random
from pathlib import Path

import pytest

from envs.datasets import jsonl
from envs.question_files import Selection
from retrieval.errors import InputError

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


class TestSubsets:
    def test_the_lowest_hashes_in_the_order_of_the_file(self, tmp_path: Path) -> None:
        path = write(tmp_path / "q.jsonl", ROWS)
        lowest = sorted(
            (str(row["id"]) for row in ROWS),
            key=lambda each: hashlib.sha256(f"7:{each}".encode()).digest(),
        )
        expected = [str(row["id"]) for row in ROWS if row["id"] in lowest[:50]]
        assert ids(path, limit=50, subset_seed=7) == expected

    def test_other_rows_and_another_order_change_little(self, tmp_path: Path) -> None:
        shuffled = list(ROWS)
        random.Random(1).shuffle(shuffled)
        whole = set(ids(write(tmp_path / "a.jsonl", ROWS), limit=100, subset_seed=0))
        assert set(ids(write(tmp_path / "b.jsonl", shuffled), limit=100, subset_seed=0)) == whole
        # Without a tenth of the rows, the subset keeps all of its own that are still there.
        fewer = [row for row in shuffled if not str(row["id"]).endswith("7")]
        names = {str(row["id"]) for row in fewer}
        kept = set(ids(write(tmp_path / "c.jsonl", fewer), limit=100, subset_seed=0))
        assert whole & names <= kept and len(kept) == 100

    def test_it_is_taken_of_the_split(self, tmp_path: Path) -> None:
        path = write(tmp_path / "q.jsonl", ROWS)
        test = set(ids(path, split="test"))
        assert set(ids(path, split="test", limit=60, subset_seed=3)) < test

    def test_a_limit_above_the_number_takes_all(self, tmp_path: Path) -> None:
        path = write(tmp_path / "q.jsonl", ROWS[:20])
        assert ids(path, limit=30, subset_seed=3) == ids(path)

    def test_a_seed_without_a_limit_is_refused(self) -> None:
        with pytest.raises(
            InputError, match="subset_seed 3 chooses which questions a limit leaves"
        ):
            Selection(subset_seed=3)
