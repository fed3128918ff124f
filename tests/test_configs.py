"""Every file in configs/ is a strict configuration of train.py; the data it names may be absent."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonargparse import ArgumentParser

from agents import command_line
from agents.config import EVAL_LAYOUT, TRAIN_LAYOUT

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "configs").glob("*.yaml"))


def parse(file: Path, layout: Any = TRAIN_LAYOUT) -> dict[str, Any]:
    return command_line.parse(ArgumentParser(), layout, ["--config", str(file)], {})[0]


def test_there_are_the_two_that_need_no_data() -> None:
    assert {"quickstart.yaml", "tiny.yaml"} <= {file.name for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_parses_strictly_and_loads_back_equal(file: Path, tmp_path: Path) -> None:
    values = parse(file)
    saved = tmp_path / "config.yaml"
    saved.write_text(command_line.to_yaml(values))
    assert parse(saved) == values
    # eval.py takes the same sections from a run's folder as its defaults.
    sections = command_line.read_yaml(saved, EVAL_LAYOUT)
    evaluated = command_line.parse(ArgumentParser(), EVAL_LAYOUT, [], sections)[0]
    shared = EVAL_LAYOUT.keys() & TRAIN_LAYOUT.keys()
    assert EVAL_LAYOUT.keys() - shared == {"method"}
    assert {section: evaluated[section] for section in shared} == {s: values[s] for s in shared}


@pytest.mark.parametrize("file", sorted((ROOT / "configs" / "presets").glob("*.yaml")), ids=str)
def test_a_preset_is_read_strictly_by_the_evaluation(file: Path) -> None:
    resolved = yaml.safe_load(command_line.to_yaml(parse(file, EVAL_LAYOUT)))
    for section, keys in yaml.safe_load(file.read_text()).items():
        for key, value in keys.items():
            assert resolved[section][key] == value


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_it_says_is_what_is_parsed(file: Path) -> None:
    """No key of the file is lost: each is found again in the resolved configuration."""
    resolved = yaml.safe_load(command_line.to_yaml(parse(file)))
    for section, keys in yaml.safe_load(file.read_text()).items():
        for key, value in keys.items():
            assert resolved[section][key] == value


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_is_a_run_of_its_own_that_evaluates_on_held_out_questions(file: Path) -> None:
    values = parse(file)
    assert values["run"].dir == f"runs/{file.stem}"
    if values["evaluation"].questions:
        assert values["dataset"].config.split == "train"
        assert values["evaluation"].split == "test"
