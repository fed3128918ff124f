"""From configuration to parts: each slot filled, what does not fit refused, budgets kept."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from jsonargparse import ArgumentParser
from peft import get_peft_model_state_dict

from agents import command_line
from agents.assembly import (
    PlayOptions,
    build_dataset,
    build_parts,
    build_policy,
    build_retriever,
    build_rollout,
)
from agents.checkpoint import Progress, save_checkpoint
from agents.command_line import Plugin
from agents.config import TRAIN_LAYOUT, EnvOptions, ModelOptions, RunConfig
from agents.engine import Sampling
from agents.evaluation import evaluate, greedy
from agents.policy import SearchPolicy
from envs.types import Dataset, Question
from retrieval.corpus import Corpus
from retrieval.errors import InputError
from retrieval.isolate import Isolated
from tests.agents import builds, runs

TINY = ModelOptions(name="tiny", lora_rank=4, lora_alpha=8)


def config(folder: Path, *argv: str, **changes: Any) -> RunConfig:
    file = runs.config_file(folder, **changes)
    flags = ["--config", str(file), "--run.dir", str(folder / "run"), *argv]
    return RunConfig(**command_line.parse(ArgumentParser(), TRAIN_LAYOUT, flags, {})[0])


def adapter(policy: SearchPolicy) -> dict[str, torch.Tensor]:
    return {k: v.clone() for k, v in get_peft_model_state_dict(policy.model).items()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def test_a_split_replaces_the_configured_one(tmp_path: Path) -> None:
    plugin = config(tmp_path).dataset
    train, test = build_dataset(plugin), build_dataset(plugin, "test")
    assert train.questions == build_dataset(plugin, "train").questions
    assert not {q.id for q in train.questions} & {q.id for q in test.questions}
    assert train.passages == test.passages


def test_the_retriever_searches_the_datasets_own_passages_or_a_file(tmp_path: Path) -> None:
    own = config(tmp_path / "own")
    dataset = build_dataset(own.dataset)
    retriever, fingerprint = build_retriever(own.retriever, dataset)
    assert fingerprint == Corpus.of(dataset.passages or ()).fingerprint
    title = dataset.questions[0].supporting_titles[0]
    assert title in [hit.passage.title for hit in retriever.search([title], 3)[0]]

    files = config(tmp_path / "files", **runs.letters(tmp_path))
    retriever, other = build_retriever(files.retriever, dataset)
    assert other != fingerprint
    # Three passages in all: asked for five, the engine gives what it has.
    assert len(retriever.search(["number letter"], 5)[0]) == 3


def test_a_corpus_is_needed() -> None:
    plugin = config_free_retriever()
    with pytest.raises(InputError, match=r"retriever\.corpus: .* give --retriever\.corpus FILE"):
        build_retriever(plugin, Dataset((Question("q", "Why?", ("so",)),)))


def config_free_retriever() -> Plugin:
    argv = ["--retriever.name", "bm25s"]
    values, _ = command_line.parse(ArgumentParser(), TRAIN_LAYOUT, argv, {})
    return values["retriever"]


def test_adapters_are_drawn_from_the_seed_and_from_nothing_else() -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = adapter(build_policy(TINY, seed=3))
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    assert equal(adapter(build_policy(TINY, seed=3)), first)
    assert not equal(adapter(build_policy(TINY, seed=4)), first)


def test_a_policy_is_built_without_a_warning_on_the_users_screen() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # hidden from users anyway
        build_policy(TINY, seed=0)
    assert [str(warning.message) for warning in caught] == []


def test_an_adapter_to_start_from(tmp_path: Path) -> None:
    policy = build_policy(TINY, seed=3)
    builds.randomise(policy, 0.1)
    optimizer = torch.optim.AdamW(policy.trainable_parameters())
    folder = save_checkpoint(tmp_path, policy, Progress(0, optimizer), "tiny")
    again = build_policy(replace(TINY, adapter=str(folder)), seed=9)
    assert equal(adapter(again), adapter(policy))
    with pytest.raises(InputError, match="other LoRA options"):
        build_policy(replace(TINY, adapter=str(folder), lora_rank=2), seed=9)
    with pytest.raises(InputError, match="not a checkpoint"):
        build_policy(replace(TINY, adapter=str(tmp_path)), seed=9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "int8"}, r"model\.dtype: unknown 'int8'; choose one of "),
        ({"device": "abacus"}, r"model\.device: 'abacus' is not to be had here; use auto or cpu"),
        ({"lora_last_layers": 3}, r"model\.lora_last_layers: 3, but the model has 2 layers"),
        ({"lora_target_modules": ("nope",)}, r"model\.lora_target_modules: nope not found; "),
        ({"name": "no/such/model"}, r"model\.name: no folder 'no/such/model'; give a folder"),
    ],
)
def test_model_options_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_policy(replace(TINY, **changes), seed=0)


def played_tokens(policy: SearchPolicy, options: PlayOptions, dataset: Dataset) -> list[int]:
    """The lengths of episodes in which every turn is as long as it may be."""
    reserve = options.engine.options.max_tokens

    def write(row: int, turn: int) -> list[int]:
        ids = policy.encode("<search> region </search>")
        return policy.encode("x") * (reserve - len(ids)) + ids

    retriever, _ = build_retriever(config_free_retriever(), dataset)
    rollout = replace(
        build_rollout(policy, dataset, retriever, options), engine=builds.ScriptedEngine(write)
    )
    sampling = Sampling(reserve, 1.0, builds.STOP, 0)
    played = rollout.play(list(dataset.questions), 1, sampling)
    return [
        sum(len(turn.prompt_ids) + len(turn.action_ids) for turn in trajectory.turns)
        for trajectory in played
    ]


@pytest.mark.parametrize("framing", ["inline", "chat"])
@pytest.mark.parametrize("role", ["user", "system"])
def test_no_episode_exceeds_its_context(
    policy: SearchPolicy, tmp_path: Path, framing: str, role: str
) -> None:
    made = config(tmp_path, f"--prompt.framing={framing}", f"--prompt.role={role}")
    dataset = replace(builds.world(), questions=builds.world().questions[:20])
    # A question with options brings a hint of its own into the prompt.
    choice = replace(dataset.questions[3], options={"A": "north", "B": "south"}, answers=("A",))
    dataset = replace(dataset, questions=(*dataset.questions[:19], choice))
    longest = []
    for limit in range(260, 480, 31):
        env = EnvOptions(top_k=3, max_turns=6, max_context_tokens=limit)
        lengths = played_tokens(policy, PlayOptions(env, made.prompt, made.engine), dataset)
        assert max(lengths) <= limit
        longest.append(max(lengths) / limit)
    # And the room is used, but for a passage that no longer fits.
    assert max(longest) > 0.8


def test_a_context_without_room_says_what_the_prompt_takes(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        build_parts(config(tmp_path, "--env.max_context_tokens", "90"))
    message = str(caught.value)
    assert message.startswith(
        "env.max_context_tokens is 90, of which prompt and chat template take"
    )
    assert message.endswith("raise the limit") and "\n" not in message


def test_every_part_of_a_run(tmp_path: Path) -> None:
    parts = build_parts(config(tmp_path))
    assert parts.folder == tmp_path / "run" and not parts.folder.exists()
    assert len(parts.held_out) == 4
    assert not {q.id for q in parts.held_out} & {q.id for q in parts.questions}
    assert parts.algorithm.value is None and parts.critic is None
    assert parts.rollout.top_k == 2 and parts.rollout.max_episodes == 128
    made = evaluate(greedy(parts.rollout, 8, builds.STOP), parts.held_out, 64)
    assert [p.id for p in made] == [q.id for q in parts.held_out]
    assert build_parts(config(tmp_path, "--evaluation.questions=0")).held_out == ()


def test_questions_from_a_file_are_demonstrated_with_their_evidence(tmp_path: Path) -> None:
    parts = build_parts(config(tmp_path, "--env.max_turns=3", **runs.letters(tmp_path)))
    question = replace(parts.questions[0], supporting_titles=("Number 1", "Number 2", "Number 3"))
    *searches, answer = parts.demonstrate(question, False)
    # Three turns hold two searches and an answer.
    assert len(searches) == 2
    assert answer.endswith(f"<answer>{question.answers[0]}</answer>")


def test_without_a_turn_to_search_in_the_accepted_answers_are_cloned(tmp_path: Path) -> None:
    flags = ["--warm_start.steps=1", "--env.max_turns=1"]
    parts = build_parts(config(tmp_path, *flags, **runs.letters(tmp_path)))
    question = parts.questions[0]
    answer = (f"<answer> {question.answers[0]} </answer>",)
    assert parts.demonstrate(question, True) == parts.demonstrate(question, False) == answer
    # A world's own expert would search.
    world = build_parts(config(tmp_path / "world", *flags))
    assert len(world.demonstrate(world.questions[0], False)) == 1


def test_questions_that_are_trained_on_are_not_held_out(tmp_path: Path) -> None:
    made = config(tmp_path, "--dataset.split=all", **runs.letters(tmp_path))
    held_out = len(build_dataset(made.dataset, "test").questions)
    with pytest.raises(InputError) as caught:
        build_parts(made)
    assert str(caught.value).startswith(
        f"evaluation.split: {held_out} of its {held_out} questions are trained on too; set dataset"
    )


@dataclass(frozen=True)
class Unsplit:
    """A plug-in's settings without a split."""


def test_a_dataset_without_splits_cannot_be_evaluated_on_another_one() -> None:
    plugin = Plugin("envs.datasets", "elsewhere.mine", Unsplit())
    with pytest.raises(InputError) as caught:
        build_dataset(plugin, "test")
    assert str(caught.value) == (
        "evaluation.split: dataset 'elsewhere.mine' has no splits; set evaluation.questions to 0"
    )


def test_an_isolated_engine_answers_like_one_in_this_process(tmp_path: Path) -> None:
    here, apart = (config(tmp_path, f"--retriever.isolate={on}") for on in ("false", "true"))
    dataset = build_dataset(here.dataset)
    queries = [question.text for question in dataset.questions[:20]]
    (expected, known), (found, fingerprint) = (
        build_retriever(made.retriever, dataset) for made in (here, apart)
    )
    assert found.search(queries, 3) == expected.search(queries, 3)
    assert fingerprint == known and found.misses == 20
    assert isinstance(found._retriever, Isolated)
    assert not isinstance(expected._retriever, Isolated)
    found._retriever.close()


def test_an_isolated_engine_refuses_settings_in_the_same_words(tmp_path: Path) -> None:
    made = config(tmp_path, "--retriever.isolate=true", "--retriever.name=index")
    for isolate in (True, False):
        options = replace(made.retriever.options, isolate=isolate)
        with pytest.raises(InputError, match=r"^retriever\.path is missing: give an index folder$"):
            build_retriever(replace(made.retriever, options=options), builds.world())


def test_a_run_is_the_same_with_the_engine_in_another_process(tmp_path: Path) -> None:
    played = []
    for on in ("false", "true"):
        parts = build_parts(config(tmp_path / on, f"--retriever.isolate={on}"))
        made = evaluate(greedy(parts.rollout, 8, builds.STOP), parts.held_out, 64)
        played.append([prediction.steps for prediction in made])
    assert played[0] == played[1]


def test_an_engine_that_can_do_without_a_corpus_gets_none(tmp_path: Path) -> None:
    questions = Dataset((Question("q", "Why?", ("so",)),))
    argv = ["--retriever.name", "empty"]
    values, _ = command_line.parse(ArgumentParser(), TRAIN_LAYOUT, argv, {})
    retriever, fingerprint = build_retriever(values["retriever"], questions)
    assert retriever.search(["x"], 3) == [[]] and fingerprint == "none"
    # One whose settings want a corpus is told apart from one whose settings do not.
    argv = ["--retriever.name", "hybrid"]
    values, _ = command_line.parse(ArgumentParser(), TRAIN_LAYOUT, argv, {})
    with pytest.raises(InputError, match=r"retriever\.corpus: .* give --retriever\.corpus FILE"):
        build_retriever(values["retriever"], questions)
    world = builds.world()
    _, fingerprint = build_retriever(values["retriever"], world)
    assert fingerprint == Corpus.of(world.passages or ()).fingerprint
