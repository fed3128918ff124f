"""What the command line refuses, in one line that names the key; plug-ins of other folders."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonargparse import ArgumentParser

from agents import bounds, command_line
from agents.command_line import Slot
from agents.config import EVAL_LAYOUT, TRAIN_LAYOUT, CorpusOptions
from retrieval import plugins
from retrieval.errors import InputError

LAYOUT_KEYS = (
    "algorithm, dataset, engine, env, evaluation, guard, model, optimizer, penalty, prompt, "
)
LAYOUT_KEYS += "retriever, rollout, run, sampling, warm_start"
RUN_KEYS = "run.dir, run.keep_checkpoints, run.save_every, run.seed, run.steps, "
RUN_KEYS += "run.token_transcripts, run.wandb"


def refusal(*argv: str, layout: Any = TRAIN_LAYOUT) -> str:
    with pytest.raises(InputError) as caught:
        command_line.parse(ArgumentParser(prog="t"), layout, argv, {})
    assert "\n" not in str(caught.value)
    return str(caught.value)


UNKNOWN = {
    "run.dirr": f"run.dirr: unknown key. Did you mean run.dir? Valid keys: {RUN_KEYS}",
    "run.step": f"run.step: unknown key. Did you mean run.steps? Valid keys: {RUN_KEYS}",
    "optimiser.lr": "optimiser.lr: unknown key. Did you mean optimizer.lr? "
    f"Valid keys at the top level: {LAYOUT_KEYS}",
    "foo.bar": f"foo.bar: unknown key. Valid keys at the top level: {LAYOUT_KEYS}",
    "foo": f"foo: unknown key. Valid keys at the top level: {LAYOUT_KEYS}",
    "engine.top_p": "engine.top_p: unknown key. Valid keys of engine 'hf': "
    "engine.keep_states, engine.max_episodes, engine.max_tokens, engine.name",
}


@pytest.mark.parametrize(("key", "message"), UNKNOWN.items())
def test_an_unknown_key_is_named_with_the_valid_ones(
    key: str, message: str, tmp_path: Path
) -> None:
    assert refusal(f"--{key}", "1") == message
    assert refusal(f"--{key}=1") == message
    file = tmp_path / "c.yaml"
    section, _, leaf = key.partition(".")
    file.write_text(f"{section}: {{{leaf}: 1}}\n" if leaf else f"{section}: 1\n")
    assert refusal("--config", str(file)) == message


def test_a_flag_is_never_a_prefix_of_another() -> None:
    # argparse would take --run.sav for --run.save_every, and look-ahead would miss --dataset.nam.
    assert refusal("--run.overwr", "true").startswith("run.overwr: unknown key.")
    assert refusal("--dataset.nam", "formulary").startswith("dataset.nam: unknown key.")


WRONG = [
    ("run.steps", "many", "int"),
    ("run.steps", "1.5", "int"),
    ("optimizer.lr", "fast", "float"),
    ("env.max_context_tokens", "much", "int or null"),
    ("env.reward", "3", "dict"),
    ("engine.max_tokens", "x", "int"),
    ("algorithm.clip_low", "wide", "float"),
]


@pytest.mark.parametrize(("key", "value", "kind"), WRONG)
def test_a_wrong_type_is_named(key: str, value: str, kind: str, tmp_path: Path) -> None:
    message = f"{key} is {value}; give a value of type {kind}"
    assert refusal(f"--{key}", value) == message
    file = tmp_path / "c.yaml"
    section, _, leaf = key.partition(".")
    file.write_text(f"{section}: {{{leaf}: {value}}}\n")
    assert refusal("--config", str(file)) == message


@pytest.mark.parametrize("section", ["dataset", "retriever", "engine", "algorithm"])
def test_an_unknown_plug_in_is_named_with_the_folders(section: str) -> None:
    slot = TRAIN_LAYOUT[section]
    assert isinstance(slot, Slot)
    known = ", ".join(plugins.names(slot.package))
    folder = slot.package.rpartition(".")[2]
    assert refusal(f"--{section}.name", "nope") == (
        f"{folder}: unknown name 'nope'; choose one of {known}, or a dotted module name"
    )
    assert "defines no Config and no build" in refusal(f"--{section}.name", "json.decoder")


def test_a_name_that_the_look_ahead_cannot_see_is_refused(tmp_path: Path) -> None:
    # Formulary's flags were never added: it would play atlas under another name.
    message = "dataset.name: give it as --dataset.name, not inside --dataset"
    assert refusal("--dataset", "{name: formulary}") == message
    file = tmp_path / "section.yaml"
    file.write_text("name: formulary\n")
    assert refusal("--dataset", str(file)) == message


FILES = {
    "": "must hold sections such as 'model:' at its top level",
    "null": "must hold sections such as 'model:' at its top level",
    "- run\n- model\n": "must hold sections such as 'model:' at its top level",
    "run: {steps: [\n": "is not valid YAML: while parsing a flow node",
    "a: b: c\n": "is not valid YAML: mapping values are not allowed here",
    "\tx: 1": "is not valid YAML: while scanning for the next token found character '\\t'",
    "run: {steps: 1, steps: 2}\n": "is not valid YAML: 'steps' stands twice here; leave one of",
    "run: {}\nrun: {}\n": "is not valid YAML: 'run' stands twice here; leave one of them out",
    "run:\n": ": section 'run' is None; give it keys, or leave it out",
    "dataset: formulary\n": ": section 'dataset' is 'formulary'; give it keys, or leave it out",
    "run: !!python/object/apply:os.getcwd []\n": "is not valid YAML: could not determine a const",
}


@pytest.mark.parametrize(("text", "cause"), FILES.items())
def test_a_file_that_is_no_configuration(text: str, cause: str, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    message = refusal("--config", str(file))
    assert message.startswith(f"config: {file}") and cause in message


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    assert refusal("--config", str(missing)) == (
        f"config: cannot read {missing}: No such file or directory; check the path"
    )
    assert refusal("--config", str(tmp_path)) == (
        f"config: cannot read {tmp_path}: Is a directory; check the path"
    )
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe")
    assert f"{binary} is not valid YAML: 'utf-8' codec" in refusal("--config", str(binary))
    assert refusal("--config") == "argument --config: expected one argument"


def test_a_missing_value_and_a_missing_field() -> None:
    assert refusal("--run.steps") == "argument --run.steps: expected one argument"
    assert refusal("--dataset.name=jsonl") == "the following arguments are required: dataset.path"


PLUGIN = '''"""A retriever that lives elsewhere."""
from dataclasses import dataclass
from retrieval.retrievers import bm25s

@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        {field}: How many of the letters.
    """

    {field}: int = 3

def build(config, corpus):
    return bm25s.build(bm25s.Config(), corpus)
'''


def test_a_dotted_name_is_a_module_of_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    for module, field in (("mine", "letters"), ("clash", "name"), ("clash2", "corpus")):
        (tmp_path / "elsewhere" / f"{module}.py").write_text(PLUGIN.format(field=field))
    monkeypatch.syspath_prepend(tmp_path)
    argv = ["--retriever.name", "elsewhere.mine", "--retriever.letters", "4"]
    values, _ = command_line.parse(ArgumentParser(), EVAL_LAYOUT, argv, {})
    mine = sys.modules["elsewhere.mine"]
    assert values["retriever"].config == mine.Config(letters=4)
    assert values["retriever"].options == CorpusOptions()
    for module, field in (("clash", "name"), ("clash2", "corpus")):
        assert refusal("--retriever.name", f"elsewhere.{module}") == (
            f"retriever.name: the Config of 'elsewhere.{module}' has a field {field!r}, which the "
            "slot uses itself; rename it"
        )


def test_peek_reads_one_flag_and_leaves_the_rest() -> None:
    argv = ["--run.steps", "3", "--agent", "a", "--agents", "b", "--agent=c"]
    assert command_line.peek(argv, "--agent") == "c"
    assert command_line.peek(argv[:2], "--agent") is None
    assert command_line.peek(["--agents", "b"], "--agent", "none") == "none"
    with pytest.raises(InputError, match="argument --agent: expected one argument"):
        command_line.peek(["--agent"], "--agent")


@dataclass(frozen=True)
class Numbers:
    count: int | None = 1
    rate: float = 1.0
    part: float = 1.0

    def __post_init__(self) -> None:
        bounds.at_least(self, 1, "count")
        bounds.positive(self, "rate")
        bounds.share(self, "part")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 0}, "count is 0; give at least 1"),
        ({"rate": 0.0}, "rate is 0.0; give more than 0"),
        ({"rate": -1e-9}, "rate is -1e-09; give more than 0"),
        ({"rate": float("nan")}, "rate is nan; give more than 0"),
        ({"rate": float("inf")}, "rate is inf; give more than 0"),
        ({"part": 1.5}, "part is 1.5; give a share from 0 to 1"),
        ({"part": -0.1}, "part is -0.1; give a share from 0 to 1"),
    ],
)
def test_a_number_out_of_bounds_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Numbers(**changes)
    assert str(caught.value) == message


def test_numbers_on_their_bounds_and_none_are_taken() -> None:
    assert Numbers(None, 1e-300, 0.0) != Numbers(1, 1.0, 1.0)
    layout = {"numbers": Numbers}
    assert refusal("--numbers.count=-1", layout=layout) == "numbers.count is -1; give at least 1"
