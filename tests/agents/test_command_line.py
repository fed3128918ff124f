"""YAML and flags -> dataclasses and back; help; plug-ins of other folders; errors in one line."""

import dataclasses
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonargparse import ArgumentParser

from agents import command_line
from agents.command_line import Plugin, Slot
from agents.config import (
    ALGORITHM,
    DATASET,
    ENGINE,
    EVAL_LAYOUT,
    RETRIEVER,
    TRAIN_LAYOUT,
    OptimizerOptions,
    PromptOptions,
    RunOptions,
)
from retrieval import plugins
from retrieval.errors import InputError

SLOTS = {"dataset": DATASET, "retriever": RETRIEVER, "engine": ENGINE, "algorithm": ALGORITHM}
EVERY_PLUGIN = [
    (section, name) for section, slot in SLOTS.items() for name in plugins.names(slot.package)
]


def parse(*argv: str, layout: Any = TRAIN_LAYOUT, defaults: Any = None) -> dict[str, Any]:
    return command_line.parse(ArgumentParser(prog="t"), layout, argv, defaults or {})[0]


def refusal(*argv: str, **more: Any) -> str:
    with pytest.raises(InputError) as caught:
        parse(*argv, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def written(folder: Path, text: str) -> str:
    file = folder / "written.yaml"
    file.write_text(textwrap.dedent(text))
    return str(file)


def required(section: str, name: str) -> list[str]:
    """Flags for the fields of a plug-in's Config that have no default."""
    samples = {str: "some text", tuple[str, ...]: "[nq=nq.jsonl, jsonl=more.jsonl]"}
    module = plugins.load(SLOTS[section].package, name)
    return [
        f"--{section}.{field.name}={samples[field.type]}"
        for field in dataclasses.fields(module.Config)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]


def test_without_arguments_every_field_has_the_default_of_its_dataclass() -> None:
    values = parse()
    for section, kind in TRAIN_LAYOUT.items():
        if isinstance(kind, Slot):
            config = plugins.load(kind.package, kind.default).Config()
            options = kind.options and kind.options()
            assert values[section] == Plugin(kind.package, kind.default, config, options)
        else:
            assert values[section] == kind()


@pytest.mark.parametrize(("section", "name"), EVERY_PLUGIN)
def test_a_saved_configuration_loads_back_equal(section: str, name: str, tmp_path: Path) -> None:
    values = parse(f"--{section}.name", name, *required(section, name))
    assert values[section].name == name
    again = parse("--config", written(tmp_path, command_line.to_yaml(values)))
    assert again == values


# What YAML 1.1, YAML 1.2 or jsonargparse would take for something else than a string.
TRAPS = ["1e5", "1E-3", "null", "~", "yes", "0x1F", "1_000", "2020-01-01", ":", "#", "{a}", ".inf"]
TRAPS += ["nan", "1:30", "[1,2]", "<<", "=", "'", '"', "%", "", " ", "\u2028", "\x85", "\0"]


@settings(max_examples=40, deadline=None)
@given(text=st.sampled_from(TRAPS) | st.text(st.characters(codec="utf-8"), max_size=12))
def test_any_text_loads_back_equal(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    layout = {"prompt": PromptOptions}
    values = {"prompt": PromptOptions(template=text)}
    file = tmp_path_factory.mktemp("text") / "c.yaml"
    file.write_text(command_line.to_yaml(values), encoding="utf-8")
    assert parse("--config", str(file), layout=layout) == values
    # The same text as a default below the command line, as eval.py takes it from a run.
    sections = command_line.read_yaml(file, layout)
    assert sections == {"prompt": {"template": text, "framing": "inline", "role": "user"}}
    assert parse(layout=layout, defaults=sections) == values


@settings(max_examples=30, deadline=None)
@given(lr=st.floats(1e-12, 1e6), steps=st.integers(0, 10**9))
def test_any_number_loads_back_equal(
    lr: float, steps: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    values = {"run": RunOptions(steps=steps), "optimizer": OptimizerOptions(lr=lr)}
    file = tmp_path_factory.mktemp("numbers") / "c.yaml"
    file.write_text(command_line.to_yaml(values))
    layout = {"run": RunOptions, "optimizer": OptimizerOptions}
    assert parse("--config", str(file), layout=layout) == values


def test_the_later_of_file_and_flag_wins(tmp_path: Path) -> None:
    first = written(tmp_path, "run: {steps: 5, seed: 1}\ndataset: {name: formulary, drugs: 30}\n")
    second = tmp_path / "second.yaml"
    second.write_text("run: {steps: 6}\n")
    after = parse("--config", first, "--run.steps", "7")
    assert (after["run"].steps, after["run"].seed) == (7, 1)
    assert parse("--run.steps", "7", "--config", first)["run"].steps == 5
    both = parse("--config", first, "--config", str(second))
    assert (both["run"].steps, both["run"].seed) == (6, 1)
    assert both["dataset"].name == "formulary" and both["dataset"].config.drugs == 30


@pytest.mark.parametrize("flag", [["--dataset.name", "formulary"], ["--dataset.name=formulary"]])
def test_the_name_decides_which_flags_a_slot_has(flag: list[str], tmp_path: Path) -> None:
    assert parse(*flag, "--dataset.drugs", "50")["dataset"].config.drugs == 50
    assert parse("--dataset.drugs=50", *flag)["dataset"].config.drugs == 50
    file = written(tmp_path, "dataset: {name: atlas}\n")
    assert parse("--config", file, *flag)["dataset"].name == "formulary"
    assert parse(*flag, "--config", file)["dataset"].name == "atlas"
    message = refusal("--dataset.drugs", "50")
    assert message.startswith("dataset.drugs: unknown key. ")
    assert "Valid keys of dataset 'atlas': dataset.hops, dataset.kinds, " in message


DEFAULTS = {
    "retriever": {"name": "bm25s", "k1": 2.0, "corpus": "c.jsonl"},
    "engine": {"max_tokens": 9},
    "run": {"steps": 1},  # not in the layout: not looked at
}


def test_a_slots_defaults_hold_while_its_name_does() -> None:
    values = parse(layout=EVAL_LAYOUT, defaults=DEFAULTS)
    assert values["retriever"].config.k1 == 2.0
    assert values["retriever"].options.corpus == "c.jsonl"
    assert values["engine"].options.max_tokens == 9
    overridden = parse("--retriever.k1", "1.5", layout=EVAL_LAYOUT, defaults=DEFAULTS)
    assert overridden["retriever"].config.k1 == 1.5


def test_of_a_renamed_slot_only_the_shared_defaults_stay() -> None:
    values = parse("--retriever.name=rank_bm25", layout=EVAL_LAYOUT, defaults=DEFAULTS)
    assert values["retriever"].config == plugins.load(RETRIEVER.package, "rank_bm25").Config()
    assert values["retriever"].options.corpus == "c.jsonl"


def test_defaults_are_checked_like_files() -> None:
    # At the parser's own defaults jsonargparse looks only once they are used.
    assert refusal(layout=EVAL_LAYOUT, defaults={"env": {"top_k": "three"}}) == (
        "env.top_k is three; give a value of type int"
    )
    message = refusal(layout=EVAL_LAYOUT, defaults={"env": {"topk": 3}})
    assert message.startswith("env.topk: unknown key. Did you mean env.top_k? Valid keys: env.max_")


def documented(kind: type) -> dict[str, str]:
    """The Attributes of a docstring and of those it inherits, read with a regular expression."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        doc = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]
        entries = re.findall(r"^    (\w+): ((?:.*\n?)(?:^        .*\n?)*)", doc, re.MULTILINE)
        found |= {name: "".join(text.split()) for name, text in entries}
    return found


@pytest.mark.parametrize("dataset", ["atlas", "formulary", "mix"])
def test_help_lists_every_field_with_its_description(
    dataset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse("--dataset.name", dataset, "--help")
    assert ended.value.code == 0
    text = "".join(capsys.readouterr().out.split())
    for section, kind in TRAIN_LAYOUT.items():
        kinds = [kind]
        if isinstance(kind, Slot):
            name = dataset if section == "dataset" else kind.default
            config = plugins.load(kind.package, name).Config
            kinds = [config, *filter(None, [kind.options])]
            assert f"--{section}.nameNAMEOneof" in text
            for plugin in plugins.names(kind.package):
                assert f"{plugin}," in text
        for group in kinds:
            descriptions = documented(group)
            for field in dataclasses.fields(group):
                assert f"--{section}.{field.name}" in text
                assert descriptions[field.name] in text


def leaves(value: Any) -> int:
    if isinstance(value, Plugin):
        return 1 + leaves(value.config) + (leaves(value.options) if value.options else 0)
    return len(dataclasses.fields(value))


def test_a_configuration_has_at_most_80_leaves_and_a_section_at_most_15() -> None:
    values = parse()
    counts = [leaves(value) for value in values.values()]
    saved = yaml.safe_load(command_line.to_yaml(values))
    assert [len(section) for section in saved.values()] == counts
    assert sum(counts) <= 80 and max(counts) <= 15
