"""Checkpoints: what is written can be read by others, what cannot be read changes nothing."""

import json
import shutil
from pathlib import Path

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file

from agents import checkpoint
from agents.checkpoint import (
    Progress,
    latest_checkpoint,
    load_adapter,
    load_critic,
    load_optimizer,
    load_training,
    save_checkpoint,
)
from agents.critic import Critic
from agents.engine import Sampling
from agents.generation.hf import HFEngine
from agents.models import load_base
from agents.policy import LoraOptions, SearchPolicy
from retrieval.errors import InputError
from tests.agents import builds

IDS = torch.arange(2, 40)[None]


def logits(policy: SearchPolicy) -> torch.Tensor:
    with torch.no_grad():
        return policy.model(input_ids=IDS).logits


def adamw(policy: SearchPolicy) -> torch.optim.AdamW:
    return torch.optim.AdamW(policy.trainable_parameters(), lr=1e-2)


def take_steps(policy: SearchPolicy, optimizer: torch.optim.Optimizer, count: int) -> None:
    for _ in range(count):
        optimizer.zero_grad()
        logprobs, _ = policy.logprobs(IDS, IDS % 3 == 0, 1.0)
        (-logprobs.sum()).backward()
        optimizer.step()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory):
    """A policy after three steps, its optimiser, and its checkpoint."""
    policy = builds.build_policy()
    optimizer = adamw(policy)
    take_steps(policy, optimizer, 3)
    parent = tmp_path_factory.mktemp("run") / "checkpoints"
    return policy, optimizer, save_checkpoint(parent, policy, Progress(7, optimizer), "tiny")


@pytest.fixture
def folder(trained, tmp_path: Path) -> Path:
    """A copy of the checkpoint to damage."""
    return Path(shutil.copytree(trained[2], tmp_path / "step-000007"))


def test_peft_opens_it(trained) -> None:
    policy, _, saved = trained
    base, _ = load_base("tiny", torch.float32, torch.device("cpu"))
    opened = peft.PeftModel.from_pretrained(base, saved)
    with torch.no_grad():
        assert torch.equal(opened(input_ids=IDS).logits, logits(policy))
        with opened.disable_adapter():
            assert not torch.equal(opened(input_ids=IDS).logits, logits(policy))


def test_peft_alone_gives_the_same_greedy_answers(trained) -> None:
    """On 20 questions, through `generate` of a plain `PeftModel`."""
    policy, _, saved = trained
    base, tokenizer = load_base("tiny", torch.float32, torch.device("cpu"))
    opened = peft.PeftModel.from_pretrained(base, saved)
    prompts = [policy.encode(question.prompt) for question in builds.world().questions[:20]]
    session = HFEngine(policy).open(prompts, 1, Sampling(8, 0.0, (), 0))
    answers = session.turn(dict.fromkeys(range(20), ()))
    assert len({answer.ids for answer in answers.values()}) > 10
    for row, prompt in enumerate(prompts):
        told = opened.generate(
            input_ids=torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
            do_sample=False,
            max_new_tokens=8,
            pad_token_id=tokenizer.pad_token_id,
        )
        assert tuple(told[0, len(prompt) :].tolist()) == answers[row].ids


def test_the_folder_holds_an_adapter_and_no_pickle(trained) -> None:
    names = {path.name for path in trained[2].iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors"} <= names
    assert {"optimizer.safetensors", "state.json"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pth", ".pkl"))]
    assert json.loads((trained[2] / "state.json").read_text())["step"] == 7
    assert trained[2].name == "step-000007"


def test_it_is_readable_by_whoever_may_read_the_run(trained) -> None:
    assert trained[2].stat().st_mode == trained[2].parent.stat().st_mode
    assert len({path.stat().st_mode for path in trained[2].iterdir()}) == 1


def test_the_adapter_comes_back(trained) -> None:
    policy, _, saved = trained
    other = builds.build_policy()
    assert not torch.equal(logits(other), logits(policy))
    assert load_adapter(other, saved) == 7
    assert torch.equal(logits(other), logits(policy))


def test_training_goes_on_as_if_it_had_not_stopped(trained) -> None:
    """The moments come back too: two more steps give the same weights, bit for bit."""
    _, optimizer, saved = trained
    other = builds.build_policy()
    load_adapter(other, saved)
    resumed = adamw(other)
    load_optimizer(resumed, saved)
    old, new = (o.state_dict()["state"] for o in (optimizer, resumed))
    assert old.keys() == new.keys() and len(old) == len(other.trainable_parameters())
    for index, values in old.items():
        assert values.keys() == new[index].keys()
        assert all(torch.equal(values[name], new[index][name]) for name in values)
    whole = builds.build_policy()
    uninterrupted = adamw(whole)
    take_steps(whole, uninterrupted, 5)
    take_steps(other, resumed, 2)
    assert torch.equal(logits(whole), logits(other))


def test_an_optimizer_that_has_not_stepped(tmp_path) -> None:
    policy = builds.build_policy()
    saved = save_checkpoint(tmp_path, policy, Progress(0, adamw(policy)), "tiny")
    optimizer = adamw(policy)
    load_optimizer(optimizer, saved)
    assert not optimizer.state_dict()["state"]


def test_the_learning_rate_is_the_configurations_not_the_checkpoints(trained) -> None:
    optimizer = torch.optim.AdamW(builds.build_policy().trainable_parameters(), lr=0.5)
    load_optimizer(optimizer, trained[2])
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_saving_again_replaces(trained, tmp_path) -> None:
    policy, optimizer, _ = trained
    first = save_checkpoint(tmp_path, policy, Progress(3, optimizer), "tiny")
    (first / "stray").touch()
    second = save_checkpoint(tmp_path, policy, Progress(3, optimizer), "tiny")
    assert first == second and not (second / "stray").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["step-000003"]


@pytest.mark.parametrize("broken", ["save_file", "fingerprint"])
def test_an_error_while_writing_leaves_what_was_there(
    trained, tmp_path, monkeypatch, broken
) -> None:
    policy, optimizer, _ = trained
    saved = save_checkpoint(tmp_path, policy, Progress(3, optimizer), "tiny")
    before = {path.name: path.read_bytes() for path in saved.iterdir()}

    def fail(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr(checkpoint, broken, fail)
    for step in (3, 4):
        with pytest.raises(OSError, match="No space"):
            save_checkpoint(tmp_path, policy, Progress(step, optimizer), "tiny")
    assert [path.name for path in tmp_path.iterdir()] == ["step-000003"]
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before


class TestLatest:
    def test_it_is_the_highest_step_not_the_last_name(self, tmp_path) -> None:
        for name in ("step-000009", "step-000010", "step-1000000", "step-2x", "writing-abc"):
            (tmp_path / "checkpoints" / name).mkdir(parents=True)
        assert latest_checkpoint(tmp_path).name == "step-1000000"

    def test_there_may_be_none(self, tmp_path) -> None:
        assert latest_checkpoint(tmp_path) is None
        (tmp_path / "checkpoints" / "writing-abc").mkdir(parents=True)
        assert latest_checkpoint(tmp_path) is None


def change_state(folder: Path, **changes) -> None:
    file = folder / "state.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def truncate(folder: Path, name: str = "adapter_model.safetensors") -> None:
    file = folder / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def shrink(folder: Path) -> None:
    file = folder / "adapter_model.safetensors"
    save_file({key: value[:2] for key, value in load_file(file).items()}, file)


def drop_one(folder: Path) -> None:
    file = folder / "adapter_model.safetensors"
    tensors = load_file(file)
    tensors.popitem()
    save_file(tensors, file)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "state.json").unlink(), "not a checkpoint"),
        (lambda f: (f / "state.json").write_text("{"), "not a checkpoint"),
        (lambda f: (f / "state.json").write_text("[]"), "not a checkpoint"),
        (lambda f: (f / "state.json").write_text('{"step": 1}'), "not a checkpoint"),
        (lambda f: change_state(f, step="x"), "not a checkpoint"),
        (lambda f: change_state(f, step=None), "not a checkpoint"),
        (lambda f: change_state(f, base_fingerprint="sha256:0"), "another base model .*'tiny'"),
        (lambda f: (f / "adapter_model.safetensors").unlink(), "missing or damaged"),
        (truncate, "missing or damaged"),
        (shrink, "other LoRA options"),
        (drop_one, "other LoRA options"),
        (lambda f: (f / "adapter_config.json").unlink(), "missing or damaged"),
        (lambda f: (f / "adapter_config.json").write_text("[]"), "missing or damaged"),
        (shutil.rmtree, "not a checkpoint"),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_changes_nothing(folder, damage, message) -> None:
    damage(folder)
    policy = builds.build_policy(b_std=0.1)
    before = logits(policy)
    with pytest.raises(InputError, match=message) as caught:
        load_adapter(policy, folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)
    assert torch.equal(logits(policy), before)


@pytest.mark.parametrize(
    "options",
    [{"rank": 8}, {"last_layers": 1}, {"modules": ("q_proj",)}],
    ids=["rank", "layers", "modules"],
)
def test_other_lora_options_are_refused(trained, options) -> None:
    with pytest.raises(InputError, match="other LoRA options"):
        load_adapter(builds.build_policy(**options), trained[2])


def test_another_base_model_is_refused(trained) -> None:
    policy = builds.build_policy()
    with torch.no_grad():
        next(iter(policy.base_state().values())).flatten()[3] += 0.1
    with pytest.raises(InputError, match="another base model"):
        load_adapter(policy, trained[2])


def test_another_scale_is_another_policy(trained) -> None:
    """alpha is in no tensor, but the same A and B with twice the scale are not what was trained."""
    policy = builds.build_policy(alpha=32)
    with pytest.raises(InputError, match="other LoRA options"):
        load_adapter(policy, trained[2])


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: truncate(folder, "optimizer.safetensors"),
        lambda folder: (folder / "optimizer.safetensors").unlink(),
        lambda folder: save_file({"junk": torch.zeros(1)}, folder / "optimizer.safetensors"),
        lambda folder: save_file({"99.exp_avg": torch.zeros(1)}, folder / "optimizer.safetensors"),
        lambda folder: save_file({"0.exp_avg": torch.zeros(3)}, folder / "optimizer.safetensors"),
    ],
)
def test_damaged_moments_are_refused(folder, damage) -> None:
    damage(folder)
    optimizer = adamw(builds.build_policy())
    with pytest.raises(InputError, match=r"optimizer\.safetensors: missing or damaged"):
        load_optimizer(optimizer, folder)
    assert not optimizer.state_dict()["state"]


def test_a_critic_comes_back_and_the_policys_adapter_stays_loadable(tmp_path: Path) -> None:
    policy = builds.build_policy(b_std=0.1)
    critic = builds.build_critic(policy)
    groups = [{"params": policy.trainable_parameters()}, {"params": critic.parameters()}]
    progress = Progress(5, torch.optim.AdamW(groups), critic, {"trainer": {"kl_coef": 0.25}})
    folder = save_checkpoint(tmp_path, policy, progress, "tiny")
    assert {"adapter_model.safetensors", "critic", "value_head.safetensors"} <= {
        path.name for path in folder.iterdir()
    }
    assert load_training(folder) == {"trainer": {"kl_coef": 0.25}}
    other = builds.build_policy()
    again = Critic(other, LoraOptions(4, 8, ("q_proj", "v_proj"), 0))
    assert load_adapter(other, folder) == 5
    load_critic(again, folder)
    pairs = zip(critic.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    # Without a critic, as eval.py opens it.
    alone = builds.build_policy()
    load_adapter(alone, folder)
    ids = torch.arange(5, 20)[None]
    with torch.no_grad():
        assert torch.equal(alone.hidden(ids), policy.hidden(ids))
    wider = Critic(builds.build_policy(), LoraOptions(8, 16, ("q_proj", "v_proj"), 0))
    with pytest.raises(InputError, match=r"the critic has another rank than algorithm\.critic"):
        load_critic(wider, folder)
    (folder / "value_head.safetensors").unlink()
    with pytest.raises(InputError, match="missing or damaged"):
        load_critic(again, folder)


def test_a_state_without_training_is_damaged(trained, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(trained[2], folder)
    state = json.loads((folder / "state.json").read_text())
    del state["training"]
    (folder / "state.json").write_text(json.dumps(state))
    with pytest.raises(InputError, match=r"state.json: missing or damaged"):
        load_training(folder)
