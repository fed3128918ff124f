import json
from pathlib import Path

import pytest

from envs.datasets import jsonl, mix
from retrieval import plugins
from retrieval.errors import InputError


def write(path: Path, *ids: str) -> str:
    rows = [{"id": each, "question": f"{each}?", "answers": ["a"]} for each in ids]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def ids(*parts: str, **settings: object) -> list[str]:
    config = mix.Config(parts, **settings)  # type: ignore[arg-type]
    return [question.id for question in mix.build(config).questions]


def test_one_of_each_in_turn_until_the_files_run_out(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", "a1", "a2", "a3", "a4")
    second = write(tmp_path / "b.jsonl", "b1", "b2")
    assert ids(f"nq={first}", f"hotpotqa={second}") == ["a1", "b1", "a2", "b2", "a3", "a4"]
    assert ids(f"nq={first}", f"hotpotqa={second}", limit=3) == ["a1", "b1", "a2"]


def test_a_seeded_subset_has_equally_many_of_each(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", *(f"a{n}" for n in range(40)))
    second = write(tmp_path / "b.jsonl", *(f"b{n}" for n in range(40)))
    parts = (f"nq={first}", f"triviaqa={second}")
    chosen = ids(*parts, limit=20, subset_seed=5)
    assert [each[0] for each in chosen] == ["a", "b"] * 10
    # Each half is the subset of its file, in its order.
    alone = jsonl.build(jsonl.Config(first, limit=10, subset_seed=5)).questions
    assert chosen[::2] == [question.id for question in alone] != [f"a{n}" for n in range(10)]


def test_every_named_set_can_be_a_part(tmp_path: Path) -> None:
    names = [
        name
        for name in plugins.names("envs.datasets")
        if hasattr(plugins.load("envs.datasets", name), "SET")
    ]
    assert len(names) == 14
    parts = [f"{name}={write(tmp_path / f'{name}.jsonl', name)}" for name in names]
    assert ids(*parts) == names


def test_ids_that_collide_get_the_name_of_their_part(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", "x", "train_0")
    second = write(tmp_path / "b.jsonl", "train_0", "y")
    parts = (f"nq={first}", f"hotpotqa={second}")
    assert ids(*parts) == ["x", "hotpotqa/train_0", "nq/train_0", "y"]
    # A limit that hides one of the two does not change the other's id.
    assert ids(*parts, limit=2) == ["x", "hotpotqa/train_0"]


def test_two_parts_of_one_plugin_are_told_apart_by_number(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.jsonl", "0"), write(tmp_path / "b.jsonl", "0")
    assert ids(f"nq={first}", f"nq={second}") == ["nq1/0", "nq2/0"]


def test_each_part_is_split_as_if_alone(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", *(f"q{n}" for n in range(100)))
    second = write(tmp_path / "b.jsonl", *(f"q{n}" for n in range(50, 150)))
    alone = {
        question.text
        for path in (first, second)
        for question in jsonl.build(jsonl.Config(path, split="test", test_share=0.3)).questions
    }
    config = mix.Config((f"nq={first}", f"jsonl={second}"), split="test", test_share=0.3)
    mixed = mix.build(config).questions
    assert {question.text for question in mixed} == alone
    assert len({question.id for question in mixed}) == len(mixed)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((), 'no parts; give at least one, such as "nq=nq.jsonl"'),
        (("nq.jsonl",), "'nq.jsonl' must be \"dataset=path\""),
        (("nq=",), 'must be "dataset=path"'),
        (("atlas=x",), "atlas reads no file"),
        (("mix=x",), "mix reads no file"),
        (
            ("squad=x.jsonl",),
            "unknown name 'squad'; choose one of 2wikimultihopqa, alphamed, atlas",
        ),
        (("nq=/none/x.jsonl",), "/none/x.jsonl: no such file"),
    ],
)
def test_wrong_parts_are_refused(parts: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        mix.build(mix.Config(parts))
    assert message in str(caught.value)
