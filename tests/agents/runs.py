"""Whole commands on the tiny model, in this process: a run of 4 steps takes a few seconds."""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

# Two threads on matrices this small mostly wait for each other, and on a busy machine for long.
torch.set_num_threads(1)

SMALL: dict[str, dict[str, Any]] = {
    "run": {"seed": 7, "steps": 4, "save_every": 2},
    "model": {"name": "tiny", "lora_rank": 4, "lora_alpha": 8},
    "dataset": {"name": "atlas", "people": 20, "hops": [1]},
    "retriever": {"name": "bm25s"},
    "env": {
        "top_k": 2,
        "max_turns": 2,
        "max_observation_tokens": 64,
        # The tiny model's turns are noise, which no task rewards: pay for what noise differs in.
        "reward": {"tests.agents.shaped_reward": 1.0},
    },
    "prompt": {"template": "minimal"},
    "engine": {"name": "hf", "max_tokens": 8},
    "rollout": {"questions_per_step": 2, "group_size": 4},
    # The KL to the base model makes the reference pass, too, part of what must be repeatable.
    "algorithm": {"name": "grpo"},
    "penalty": {"name": "kl", "coef": 0.1},
    "optimizer": {"lr": 0.01, "minibatches": 2},
    "warm_start": {"steps": 2, "episodes_per_step": 4, "lr": 0.01},
    "evaluation": {"questions": 4},
}


def config_file(folder: Path, **changes: Mapping[str, Any]) -> Path:
    """A YAML file: `SMALL` with keys of sections changed, and with slots that get a name anew."""
    sections = copy.deepcopy(SMALL)
    for section, keys in changes.items():
        sections[section] = {**({} if "name" in keys else sections.get(section, {})), **keys}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "small.yaml"
    file.write_text(yaml.safe_dump(sections, sort_keys=False))
    return file


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    status: int
    out: str
    err: str

    def refused(self) -> str:
        """The one line of a refusal, without the command's name."""
        assert self.status == 2, self
        assert self.out == ""
        assert self.err.endswith("\n") and self.err.count("\n") == 1, self.err
        name, _, message = self.err.strip().partition(": error: ")
        assert name in ("train.py", "eval.py"), self.err
        return message


def call(
    capsys: pytest.CaptureFixture[str], main: Callable[[Sequence[str]], int], *argv: object
) -> Result:
    """Run a command here; an exception is the test's failure."""
    capsys.readouterr()
    status = main([str(argument) for argument in argv])
    return Result(status, *capsys.readouterr())


def read_rows(file: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file."""
    # Not splitlines(): a turn may hold U+2028 or U+0085, which end no line of JSON.
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def letters(folder: Path) -> dict[str, dict[str, Any]]:
    """Sections for questions and a corpus in files: "Which letter has number 3?" and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    questions, corpus = folder / "questions.jsonl", folder / "corpus.jsonl"
    rows = [
        {"id": f"q{i}", "question": f"Which letter has number {i}?", "answers": [chr(97 + i)]}
        for i in range(12)
    ]
    write_rows(questions, rows)
    passages = [
        {"id": f"p{i}", "title": f"Number {i}", "text": f"Number {i} has the letter {chr(97 + i)}."}
        for i in range(3)
    ]
    write_rows(corpus, passages)
    return {
        "dataset": {"name": "jsonl", "path": str(questions), "split": "train", "test_share": 0.4},
        "retriever": {"name": "bm25s", "corpus": str(corpus)},
        "warm_start": {"steps": 0},
        "evaluation": {"questions": 2},
    }


def write_rows(file: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A JSON Lines file."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


ENGINE = '''"""An engine that searches in every turn, or is interrupted."""
from dataclasses import dataclass
from tests.agents.builds import ScriptedEngine

@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        interrupt: Behave as if Ctrl-C was pressed in the first turn.
    """

    interrupt: bool = False

def build(config, policy):
    def write(row, turn):
        if config.interrupt:
            raise KeyboardInterrupt
        return policy.encode("<search> x </search>")
    return ScriptedEngine(write)
'''
RETRIEVER = '''"""A dead server."""
from dataclasses import dataclass
from tests.envs.engines import Down

@dataclass(frozen=True)
class Config:
    """No settings."""

def build(config, corpus):
    return Down()
'''


def plug_ins(folder: Path) -> dict[str, dict[str, Any]]:
    """Sections for an engine and a retriever in a package of their own, below `folder`."""
    (folder / "plugs").mkdir()
    (folder / "plugs" / "searching.py").write_text(ENGINE)
    (folder / "plugs" / "down.py").write_text(RETRIEVER)
    return {
        "engine": {"name": "plugs.searching", "max_tokens": 8},
        "retriever": {"name": "plugs.down"},
    }
