"""The doctor: all green on a sound configuration, and red where a real part is broken."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agents import policy_checks
from agents.assembly import Parts
from agents.doctor import examine, main, play_some
from agents.finding import Finding
from agents.generation.hf import HFEngine
from agents.policy_checks import (
    check_adapters,
    check_memory,
    check_ratio,
    check_template,
    randomised,
)
from agents.prompts import build_framing
from agents.world_checks import check_retriever, check_reward
from envs.search_env import SearchEnv
from envs.types import Question
from retrieval.cache import CachedRetriever
from retrieval.types import Hit, Passage
from tests.agents import builds, runs
from tests.agents.test_training import build
from tests.envs.engines import Down

WORLD: dict[str, Any] = {
    "env": {
        "max_turns": 3,
        "max_observation_tokens": 160,
        "reward": {"exact_match": 1.0, "evidence": 0.2},
    }
}
OBSERVATION = "<information>Doc 1(Title: T) text</information>"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """A sound run whose adapters do something; for reading only."""
    made = build(tmp_path_factory.mktemp("doctor"), **WORLD)
    builds.randomise(made.policy, 0.05)
    return made


def test_all_is_green_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = runs.config_file(tmp_path, **WORLD)
    argv = ["--config", file, "--run.dir", tmp_path / "run"]
    result = runs.call(capsys, main, *argv)
    assert result.status == 0, result.out
    lines = result.out.splitlines()
    names = ["action mask", "chat template", "on-policy ratio", "adapter delivery", "reward"]
    for line, name in zip(lines[-8:], [*names, "retriever", "memory"], strict=False):
        assert line.startswith(f"{name:<18}green ")
    assert lines[-1] == "all is green"
    # The mask: every line is marked, and no control character gets to a log.
    marked = lines[:-8]
    assert {line[:9] for line in marked} == {"prompt | ", "action > ", "  read | "}
    assert all(line.isprintable() for line in lines)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_the_doctor_leaves_the_policy_as_it_was(parts: Parts) -> None:
    before = {name: p.clone() for name, p in parts.policy.model.named_parameters()}
    assert all(finding.green for _, finding in examine(parts))
    after = dict(parts.policy.model.named_parameters())
    assert before.keys() == after.keys()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_a_red_finding_is_status_1_and_the_other_checks_still_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    plugs = runs.plug_ins(tmp_path)
    file = runs.config_file(tmp_path, retriever=plugs["retriever"], **WORLD)
    result = runs.call(capsys, main, "--config", file)
    assert result.status == 1 and result.err == ""
    reds = [line for line in result.out.splitlines() if line[18:22] == "RED "]
    assert len(reds) == 1 and reds[0].startswith("retriever         RED   "), result.out
    assert "remedy: " in result.out and result.out.splitlines()[-1].startswith("not all is green")
    assert "memory            green" in result.out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--run.stepss=3"], "run.stepss: unknown key. Did you mean run.steps?"),
        (["--config=nowhere.yaml"], "config: cannot read nowhere.yaml: "),
        (["--model.name=nowhere/at/all"], "model.name: no folder 'nowhere/at/all'; "),
    ],
)
def test_bad_input_is_status_2(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = runs.call(capsys, main, *argv)
    assert result.status == 2 and result.out == ""
    assert result.err.startswith(f"doctor: error: {message}") and result.err.count("\n") == 1


class TestSampler:
    def test_a_sampler_with_other_weights_is_off_policy(self, parts: Parts) -> None:
        assert check_ratio(parts, play_some(parts)).green
        stale = HFEngine(copy.deepcopy(parts.policy))
        with randomised(parts.policy, 0.05):  # the trainer has gone on; the sampler has not
            rollout = replace(parts.rollout, engine=stale)
            finding = check_ratio(parts, play_some(replace(parts, rollout=rollout)))
        assert not finding.green and "engine.name hf" in finding.remedy

    def test_another_temperature_is_off_policy(self, parts: Parts) -> None:
        played = play_some(parts)  # at 1.0
        warm = replace(parts.config.rollout, temperature=1.2)
        other = replace(parts, config=replace(parts.config, rollout=warm))
        assert not check_ratio(other, played).green

    def test_a_sampler_that_never_gets_new_adapters(self, parts: Parts) -> None:
        stale = HFEngine(copy.deepcopy(parts.policy))
        broken = replace(parts, rollout=replace(parts.rollout, engine=stale))
        finding = check_adapters(broken)
        assert not finding.green and "it has old ones" in finding.said

    def test_adapters_that_do_nothing(self, parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(policy_checks, "_SPREADS", (0.0,))
        # B is 0 then: to see nothing move, it has to be 0 before as well.
        fresh = replace(parts, policy=builds.build_policy())
        rollout = replace(parts.rollout, engine=HFEngine(fresh.policy))
        finding = check_adapters(replace(fresh, rollout=rollout))
        assert not finding.green and "lora_target_modules" in finding.remedy

    def test_a_base_that_is_written_to(self, parts: Parts) -> None:
        policy = builds.build_policy(b_std=0.05)

        class Merging(HFEngine):
            """Puts the adapters into the base, as an engine may, and leaves them there."""

            def open(self, *arguments: Any) -> Any:
                policy.model.merge_adapter()
                try:
                    session = super().open(*arguments)
                finally:
                    policy.model.unmerge_adapter()
                weight = next(iter(policy.base_state().values()))
                weight.data += 1e-3  # what rounding leaves behind, exaggerated
                return session

        broken = replace(parts, policy=policy)
        broken = replace(broken, rollout=replace(parts.rollout, engine=Merging(policy)))
        finding = check_adapters(broken)
        assert not finding.green


class TestTemplate:
    @pytest.mark.parametrize("name", ["inline", "chat"])
    @pytest.mark.parametrize("role", ["user", "system"])
    def test_the_framings_are_green(self, parts: Parts, name: str, role: str) -> None:
        framing = build_framing(parts.policy.tokenizer, "short", name, role)
        assert check_template(framing, parts.questions[0], OBSERVATION).green

    @pytest.mark.parametrize("name", ["inline", "chat"])
    def test_a_wrong_border_is_red_where_it_is_used(self, parts: Parts, name: str) -> None:
        framing = build_framing(parts.policy.tokenizer, "short", name)
        broken = replace(framing, after=framing.after + "<|im_start|>")
        finding = check_template(broken, parts.questions[0], OBSERVATION)
        assert not finding.green and "prompt.framing: inline" in finding.remedy

    def test_a_template_that_rewrites_the_start_is_red_in_chat_and_green_inline(
        self, parts: Parts
    ) -> None:
        tokenizer = copy.deepcopy(parts.policy.tokenizer)
        tokenizer.chat_template = (
            "{% if messages | length > 2 %}(long){% endif %}" + tokenizer.chat_template
        )
        question = parts.questions[0]
        found = {
            name: check_template(build_framing(tokenizer, "short", name), question, OBSERVATION)
            for name in ("chat", "inline")
        }
        assert not found["chat"].green and found["inline"].green

    def test_a_template_that_changes_messages_is_red(self, parts: Parts) -> None:
        tokenizer = copy.deepcopy(parts.policy.tokenizer)
        tokenizer.chat_template = tokenizer.chat_template.replace(
            "message['content']", "message['content'] | trim"
        )
        framing = build_framing(tokenizer, "short", "inline", "system")
        question = Question("q", " Which? ", ("x",))
        finding = check_template(framing, question, OBSERVATION)
        assert not finding.green and finding.remedy.startswith("model.name: ")

    def test_one_that_strips_reasoning_is_green_with_a_note(self, parts: Parts) -> None:
        tokenizer = copy.deepcopy(parts.policy.tokenizer)
        tokenizer.chat_template = tokenizer.chat_template.replace(
            "{{ message['content'] }}", "{{ message['content'].split('</think>')[-1] }}"
        )
        framing = build_framing(tokenizer, "minimal", "chat")
        finding = check_template(framing, parts.questions[0], OBSERVATION)
        assert finding.green and "strips earlier reasoning" in finding.said


class TestReward:
    def with_env(self, parts: Parts, reward: Any = None, **env: Any) -> Parts:
        """The same parts, playing in an environment of other settings."""
        argv = [f"--env.{key}={value}" for key, value in env.items()]
        section = {} if reward is None else {"reward": reward}
        made = build(parts.folder.parent, *argv, env={**WORLD["env"], **section})
        return replace(parts, config=made.config, rollout=made.rollout)

    def test_a_plug_in_that_pays_nothing(
        self, parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "terms").mkdir()
        (tmp_path / "terms" / "stingy.py").write_text(
            '"""Pays nothing."""\nfrom dataclasses import dataclass\n\n@dataclass(frozen=True)\n'
            'class Config:\n    """None."""\n\ndef build(config):\n    return lambda episode: 0.0\n'
        )
        monkeypatch.syspath_prepend(tmp_path)
        finding = check_reward(self.with_env(parts, {"terms.stingy": 1.0}))
        assert not finding.green and "terms.stingy must pay right answers more" in finding.remedy

    def test_one_that_pays_for_anything(self, parts: Parts) -> None:
        finding = check_reward(self.with_env(parts, {"tests.agents.shaped_reward": 1.0}))
        assert not finding.green

    def test_too_few_turns_for_the_expert(self, parts: Parts, tmp_path: Path) -> None:
        made = build(tmp_path, "--env.max_turns=2", dataset={"hops": [3]})
        finding = check_reward(made)
        assert not finding.green and finding.remedy.startswith("env.max_turns is 2: ")

    def test_a_right_answer_that_is_graded_wrong(self, parts: Parts) -> None:
        """The questions' answers are not those of the world."""
        wrong = [replace(question, answers=("else",)) for question in parts.questions[:2]]
        finding = check_reward(replace(parts, questions=wrong))
        assert not finding.green and "is paid 0.2, not 1.2" in finding.said

    def test_options_are_graded_by_letter(self, tmp_path: Path) -> None:
        made = build(
            tmp_path,
            dataset={"name": "formulary", "drugs": 20},
            env={"max_turns": 3, "reward": {"choice": 1.0}},
            evaluation={"questions": 0},
        )
        assert check_reward(made).green


class Same:
    """Finds the same passages, whatever is asked."""

    def __init__(self, hits: Sequence[Hit]) -> None:
        self._hits = list(hits)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return [self._hits for _ in queries]


class TestRetriever:
    def found(self, parts: Parts, engine: Any) -> Finding:
        rollout = replace(parts.rollout, retriever=CachedRetriever(engine))
        return dict(examine(replace(parts, rollout=rollout)))["retriever"]

    def test_one_that_fails(self, parts: Parts) -> None:
        assert not self.found(parts, Down()).green

    def test_one_that_finds_nothing(self, parts: Parts) -> None:
        finding = self.found(parts, Same([]))
        assert not finding.green and finding.remedy.startswith("retriever.corpus: ")

    def test_one_over_another_corpus(self, parts: Parts) -> None:
        finding = self.found(parts, Same([Hit(Passage("x", "Elsewhere", "Another."), 1.0, 1)]))
        assert not finding.green and "evidence of none of 8 questions" in finding.said

    def test_one_that_gives_a_passage_twice(self, parts: Parts) -> None:
        hits = parts.rollout.retriever.search([parts.questions[0].text], 1)[0]
        finding = self.found(parts, Same([*hits, *hits]))
        assert not finding.green and "or one twice" in finding.said

    def test_a_failed_search_that_is_scored(
        self, parts: Parts, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def forgiving(env: SearchEnv, text: str) -> Any:
            return "", 1.0, True, False, {}

        monkeypatch.setattr(SearchEnv, "step", forgiving)
        finding = check_retriever(parts)
        assert not finding.green and "is scored" in finding.said


def test_memory_that_cannot_be_had_is_red(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_memory(parts.config).green
    here = policy_checks.this_device(parts.config)
    needed = policy_checks.needs(parts.config, here)
    for share, remedy in ((0.9, "--"), (1e-6, "choose a smaller model or another machine; ")):
        small = replace(here, memory=share * needed.peak)
        monkeypatch.setattr(policy_checks, "this_device", lambda config, device=small: device)
        finding = check_memory(parts.config)
        assert not finding.green and finding.remedy.startswith(remedy)
