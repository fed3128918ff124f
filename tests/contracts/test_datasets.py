"""The contract of a data set, checked on every member of envs/datasets."""

import dataclasses
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from envs.types import Dataset
from retrieval import plugins
from retrieval.errors import InputError

NAMES = plugins.names("envs.datasets")
ROWS = [
    {
        "id": f"q{number}",
        "question": f"Which letter has the number {number}?",
        "answers": ["B", f"text {number}"],
        "options": {"A": "another", "B": f"text {number}"},
        "supporting_titles": ["The alphabet"],
        "dataset": "letters",
    }
    for number in range(60)
]


@pytest.fixture(params=NAMES)
def plugin(request: pytest.FixtureRequest) -> ModuleType:
    return plugins.load("envs.datasets", request.param)


@pytest.fixture
def required(plugin: ModuleType, tmp_path: Path) -> dict[str, Any]:
    """Values for the fields of `Config` without a default, and the path, whose default is a hub."""
    folder = tmp_path / "letters"
    folder.mkdir()
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    known: dict[str, Any] = {"path": str(path), "parts": (f"jsonl={path}",), "repo": str(folder)}
    needed = [
        field.name
        for field in dataclasses.fields(plugin.Config)
        if _is_required(field) or field.name == "path"
    ]
    missing = set(needed) - set(known)
    assert not missing, f"teach this test a value for {missing}"
    values = {name: known[name] for name in needed}
    if "options_column" in {field.name for field in dataclasses.fields(plugin.Config)}:
        values |= {"options_column": "options", "cache_dir": str(tmp_path / "cache")}
    return values


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _build(plugin: ModuleType, values: dict[str, Any], **changes: Any) -> Dataset:
    return plugin.build(plugin.Config(**values, **changes))


def test_is_one_documented_file_with_a_frozen_config(plugin: ModuleType) -> None:
    assert plugin.__doc__ and plugin.Config.__doc__ and plugin.build.__doc__
    assert plugin.Config.__dataclass_params__.frozen
    fields = [field.name for field in dataclasses.fields(plugin.Config)]
    assert {"split", "limit"} <= set(fields)
    # A field that is inherited is documented where it comes from.
    texts = "".join(base.__doc__ or "" for base in plugin.Config.__mro__)
    undocumented = [name for name in fields if f"{name}: " not in texts]
    assert not undocumented


def test_questions_are_valid(plugin: ModuleType, required: dict[str, Any]) -> None:
    dataset = _build(plugin, required, limit=40)
    assert len(dataset.questions) == 40
    assert len({question.id for question in dataset.questions}) == 40
    for question in dataset.questions:
        assert question.id and question.text.strip() and question.dataset
        assert question.answers and all(answer.strip() for answer in question.answers)
        if question.options:
            letter, text, *_ = question.answers
            assert question.options[letter] == text
            assert len(question.options) >= 2


def test_passages_have_unique_ids_and_hold_the_evidence(
    plugin: ModuleType, required: dict[str, Any]
) -> None:
    dataset = _build(plugin, required, limit=40)
    if dataset.passages is None:
        return
    assert len({passage.id for passage in dataset.passages}) == len(dataset.passages)
    titles = {passage.title for passage in dataset.passages}
    for question in dataset.questions:
        assert question.supporting_titles and set(question.supporting_titles) <= titles


def test_the_expert_searches_and_then_answers_right(
    plugin: ModuleType, required: dict[str, Any]
) -> None:
    dataset = _build(plugin, required, limit=40)
    if dataset.demonstrate is None:
        return
    for question in dataset.questions:
        *searches, answer = dataset.demonstrate(question, False)
        assert searches and all(turn.endswith("</search>") for turn in searches)
        assert answer.endswith(f"<answer>{question.answers[0]}</answer>")


def test_the_same_config_gives_the_same_dataset(
    plugin: ModuleType, required: dict[str, Any]
) -> None:
    first, second = (_build(plugin, required, limit=40) for _ in range(2))
    assert first.questions == second.questions
    assert first.passages == second.passages


def test_a_limit_takes_a_prefix(plugin: ModuleType, required: dict[str, Any]) -> None:
    few, many = (_build(plugin, required, limit=limit).questions for limit in (7, 30))
    assert tuple(many[:7]) == tuple(few)


def test_a_seeded_subset_is_in_order_and_grows(
    plugin: ModuleType, required: dict[str, Any]
) -> None:
    if "subset_seed" not in {field.name for field in dataclasses.fields(plugin.Config)}:
        assert _build(plugin, required).passages is not None, "a world's limit is its size"
        return
    everything = [question.id for question in _build(plugin, required).questions]
    few, many, others = (
        [q.id for q in _build(plugin, required, limit=limit, subset_seed=seed).questions]
        for limit, seed in ((7, 0), (30, 0), (30, 1))
    )
    assert len(few) == 7 and len(many) == 30 and set(few) <= set(many)
    assert [each for each in everything if each in many] == many != everything[:30]
    # Of two random halves of 60 about half of the questions are the same.
    assert 8 <= len(set(many) & set(others)) <= 22


def test_train_and_test_are_disjoint_and_make_up_all(
    plugin: ModuleType, required: dict[str, Any]
) -> None:
    ids: dict[str, set[str]] = {}
    texts: dict[str, set[str]] = {}
    for split in ("train", "test", "all"):
        questions = _build(plugin, required, split=split).questions
        ids[split] = {question.id for question in questions}
        texts[split] = {question.text for question in questions}
    assert not ids["train"] & ids["test"]
    assert not texts["train"] & texts["test"]
    assert ids["train"] | ids["test"] == ids["all"]


@pytest.mark.parametrize("changes", [{"limit": 0}, {"limit": -3}, {"split": "dev"}])
def test_a_wrong_setting_is_refused_in_one_line(
    plugin: ModuleType, required: dict[str, Any], changes: dict[str, Any]
) -> None:
    with pytest.raises(InputError) as caught:
        _build(plugin, required, **changes)
    (name, value), *_ = changes.items()
    assert name in str(caught.value) and str(value) in str(caught.value)
    assert "\n" not in str(caught.value)
