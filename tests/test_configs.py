"""Every file in configs/ is a strict configuration of train.py; the data it names may be absent."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonargparse import ArgumentParser

from agents import command_line, train_command
from agents.config import EVAL_LAYOUT, TRAIN_LAYOUT
from benchmarks import recipes

ROOT = Path(__file__).parents[1]
RECIPES = sorted((ROOT / "configs/papers").glob("*.yaml"))
FILES = [*sorted((ROOT / "configs").glob("*.yaml")), *RECIPES]


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


class TestRecipes:
    """configs/papers: complete, runnable on one card, every deviation numbered and used."""

    def test_every_experiment_has_a_file(self) -> None:
        names = {file.stem for file in RECIPES}
        algorithms = ("ppo", "so_ppo", "grpo", "so_grpo", "stratified_grpo")
        assert names == {f"nq_hotpotqa_{name}" for name in algorithms} | {
            "alphamed_so_ppo",
            "alphamed_so_grpo",
        }

    @pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
    def test_it_builds_its_algorithm_and_plans_for_one_card(
        self, file: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        values = parse(file)
        assert values["algorithm"].name == file.stem.split("_", 1 + file.stem.startswith("nq"))[-1]
        values["penalty"].build()
        assert train_command.main(["--config", str(file), "--dry-run", "--memory_gb", "80"]) == 0
        out = capsys.readouterr().out
        assert "512 episodes of at most 4,096 tokens" in out and "2 optimiser steps" in out

    @pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
    def test_deviations_are_numbered_in_order_and_pointed_at(self, file: Path) -> None:
        comment, _, body = file.read_text().partition("\nrun:")
        numbers = [int(n) for n in re.findall(r"^#   \[(\d+)\]", comment, re.MULTILINE)]
        assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) >= 7
        assert {int(n) for n in re.findall(r"\[(\d+)\]", body)} <= set(numbers)

    def test_the_five_of_one_task_differ_in_their_algorithm_alone(self) -> None:
        """What is compared is the algorithm: same data, limits, model and optimiser."""
        own = {"run", "algorithm", "penalty", "rollout"}
        five = [parse(file) for file in RECIPES if file.stem.startswith("nq_hotpotqa")]
        for values in five:
            rest = {k: v for k, v in values.items() if k not in own}
            assert rest == {k: v for k, v in five[0].items() if k not in own}
            rollout = values["rollout"]
            assert rollout.questions_per_step * rollout.group_size == 512

    def test_the_table_of_the_docs_is_what_its_command_prints(self) -> None:
        page = (ROOT / "docs/recipes.md").read_text()
        assert "\n".join(recipes.table()) in page
