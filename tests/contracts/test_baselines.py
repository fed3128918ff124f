"""The contract of every method in `agents/baselines`; a new file is found by itself."""

from dataclasses import fields

import pytest
from jsonargparse import ArgumentParser

from agents import command_line
from agents.config import EVAL_LAYOUT
from agents.greedy import Table, build_play
from agents.methods import Setting
from agents.playing import PlayOptions
from agents.predictions import Played, to_prediction
from envs.datasets import formulary
from envs.types import Dataset, StopReason
from retrieval import plugins
from retrieval.corpus import Corpus
from tests.agents import builds

NAMES = plugins.names("agents.baselines")
# How an agent must have been trained, where a method asks for it.
TRAINED = {"sft": "sft", "rejection_sampling": "rejection_sampling"}
FLAGS = ["--model.name", "tiny", "--engine.max_tokens", "6", "--env.max_turns", "3"]


def world(options: bool) -> Dataset:
    return formulary.build(formulary.Config(drugs=20, limit=8)) if options else builds.world()


def played(name: str, options: bool = False, count: int = 4) -> list[Played]:
    module = plugins.load("agents.baselines", name)
    dataset = world(options)
    corpus = Corpus.of(dataset.passages or ())
    setting = Setting(dataset, corpus, TRAINED.get(name))
    values, _ = command_line.parse(ArgumentParser(), EVAL_LAYOUT, FLAGS, {})
    method = module.build(module.Config(), setting)
    table = Table(
        setting,
        builds.search_engine(),
        PlayOptions(values["env"], values["prompt"], values["engine"]),
        values["model"],
    )
    return build_play(method, table)(dataset.questions[:count], lambda ended: None)


def test_the_folder_is_the_registry() -> None:
    assert set(NAMES) == {
        *("direct", "cot", "rag", "ircot", "search_o1", "search_r1", "research", "r1"),
        *("sft", "rejection_sampling", "oracle", "scripted"),
    }


@pytest.mark.parametrize("name", NAMES)
class TestMethod:
    def test_the_file_has_a_docstring_and_a_frozen_config_with_defaults(self, name: str) -> None:
        module = plugins.load("agents.baselines", name)
        assert module.__doc__ and module.Config.__doc__
        assert module.Config.__dataclass_params__.frozen
        module.Config()
        for section, keys in getattr(module, "DEFAULTS", {}).items():
            known = {field.name for field in fields(EVAL_LAYOUT[section])}
            assert set(keys) <= known

    @pytest.mark.parametrize("options", [False, True])
    def test_every_question_is_played_to_its_end_by_a_real_model(
        self, name: str, options: bool
    ) -> None:
        made = played(name, options)
        assert len(made) == 4
        for one, question in zip(made, world(options).questions, strict=False):
            assert one.episode.question == question and not one.model_failed
            assert one.episode.stop_reason in (StopReason.ANSWERED, StopReason.TURN_LIMIT)
            assert 1 <= len(one.episode.steps) <= 3
            assert one.tokens > 0 or name == "scripted"
            assert to_prediction(one).outcome != "failed"

    def test_it_plays_the_same_alone_and_again(self, name: str) -> None:
        made = played(name)
        assert played(name) == made
        assert played(name, count=1) == made[:1]

    def test_methods_without_search_do_not_search(self, name: str) -> None:
        searches = sum(one.episode.num_searches for one in played(name))
        if name in ("direct", "cot", "r1", "sft", "oracle"):
            assert searches == 0
        elif name in ("rag", "scripted"):
            assert searches == 4
