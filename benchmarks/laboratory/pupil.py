"""The laboratory's model: a 4-layer transformer that has cloned the expert.

Most of its demonstrations stop one hop too early, so that it can search again but mostly does not:
what reinforcement learning has to find. They are about another world than the runs: the model
copies names and looks facts up. Of the expert's thoughts only the facts are kept, which makes
episodes short.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from agents.algorithms import sft
from agents.batching import to_batch
from agents.policy import SearchPolicy
from agents.prompts import build_framing
from agents.rollout import demonstrate
from agents.trainer import StepOptions, Trainer
from agents.types import Batch
from agents.writing import scratch_folder
from envs.registration import make_env
from envs.types import Dataset, Question

from .vocabulary import MIN_COUNT, build_tokenizer

STEPS, EPISODES, LR = 1500, 8, 3e-3
READING_SHARE = 0.35  # of the steps first learn all tokens: names recur in what is read, too
STRENGTH = 10.0  # of the head that looks back
STOP_EARLY_SHARE = 0.85  # of the demonstrations stop one hop too early


def build(folder: Path, world: Dataset, instruction: str, seed: int = 0) -> None:
    """Build, clone and save the model; whole or not at all.

    Args:
        folder: Where it goes; must not exist.
        world: Questions, passages and the expert.
        instruction: The prompt of later runs.
        seed: Of the weights and of the demonstrations.
    """
    tokenizer = _tokenizer(world, instruction)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(_config(tokenizer))
        _teach_copying(model)
    policy = SearchPolicy(model, tokenizer)
    _clone(policy, world, instruction, seed)
    with scratch_folder(folder) as aside:
        model.save_pretrained(aside)
        tokenizer.save_pretrained(aside)
        aside.rename(folder)


def _config(tokenizer: PreTrainedTokenizerFast) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        initializer_range=0.08,
        attention_bias=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


@torch.no_grad()
def _teach_copying(model: LlamaForCausalLM) -> None:
    """Start with one induction head: what followed this token when it stood here last?

    Unseen names are copied by such a pair of heads (Olsson et al., arXiv:2209.11895), and finding
    the pair is what takes a small transformer long. The first head of layer 0 looks one token back
    and writes what stands there into a subspace of its own; the first head of layer 1 looks for
    the token at hand in that subspace, and writes what it finds. All of it is trained further.
    """
    config, size = model.config, model.config.head_dim
    for layer in model.model.layers:  # the residual stream stays that of the embeddings, at first
        layer.self_attn.o_proj.weight /= 8
        layer.mlp.down_proj.weight /= 8
    first, second = (layer.self_attn for layer in model.model.layers[:2])
    speeds = config.rope_parameters["rope_theta"] ** (-torch.arange(0, size, 2) / size)
    basis = torch.linalg.qr(torch.randn(config.hidden_size, config.hidden_size))[0]
    read, write = basis[:, :size], basis[:, size : 2 * size]
    # With rotary positions R, a query v and a key R v score v . R^(j - i + 1) v at j, the most
    # where j = i - 1. The fast pairs only: the others hardly tell neighbours apart.
    for projection, angle in ((first.q_proj, 0.0 * speeds), (first.k_proj, speeds)):
        projection.weight[:size] = 0.0
        projection.bias[:size] = torch.cat([angle.cos(), angle.sin()]) * STRENGTH
        projection.bias[:size] *= (speeds > 0.05).float().repeat(2)
    first.v_proj.weight[:size] = read.T
    # Attention reads normalised states: embeddings over their standard deviation.
    first.o_proj.weight[:, :size] = 3 * config.initializer_range * write
    # The slow pairs only: they turn little over an episode, so that contents can be compared.
    slow = (speeds < 0.01).float().repeat(2)[:, None]
    second.q_proj.weight[:size] = 2 * read.T * slow
    second.k_proj.weight[:size] = write.T * slow
    second.v_proj.weight[:size] = read.T
    second.o_proj.weight[:, :size] = 4 * config.initializer_range * read


def _clone(policy: SearchPolicy, world: Dataset, instruction: str, seed: int) -> None:
    """Behaviour cloning of all weights."""
    framing = build_framing(policy.tokenizer, instruction, "inline", "system")
    env = make_env(dataset=world, top_k=1, max_turns=5)
    optimizer = torch.optim.AdamW(policy.trainable_parameters(), lr=LR, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, total_steps=STEPS, pct_start=0.1)
    trainer = Trainer(policy, sft.build(sft.Config()), optimizer, StepOptions(1, 1, 8192, 1.0, 1.0))
    random = np.random.default_rng(seed)
    with tqdm(total=STEPS, desc="cloning", unit="step", leave=False) as bar:
        for step in range(STEPS):
            episodes = []
            for index in random.integers(len(world.questions), size=EPISODES):
                question = world.questions[int(index)]
                texts = _demonstration(world, question, bool(random.random() < STOP_EARLY_SHARE))
                episodes.append(demonstrate(question, texts, env, framing))
            batch = to_batch(episodes, policy.pad_id)
            if step < READING_SHARE * STEPS:
                batch = _all_tokens(batch)
            loss = trainer.update(batch, step)["policy_loss"]
            schedule.step()
            bar.set_postfix(loss=f"{loss:.3f}")
            bar.update()


def _demonstration(world: Dataset, question: Question, stop_early: bool) -> list[str]:
    """The expert's turns without what it says it needs."""
    assert world.demonstrate is not None
    texts = world.demonstrate(question, stop_early)
    short = (re.sub(r" ?I need [^<]*", "", text) for text in texts)
    return [text.removeprefix("<think></think>\n") for text in short]


def _all_tokens(batch: Batch) -> Batch:
    """The batch as if every token but the first had been sampled."""
    mask = batch.attention_mask.clone()
    mask[:, 0] = False
    return replace(
        batch, action_mask=mask, turn_ids=torch.where(mask, batch.turn_ids.clamp(min=0), -1)
    )


def _tokenizer(world: Dataset, instruction: str) -> PreTrainedTokenizerFast:
    texts = [instruction] * MIN_COUNT
    for passage in world.passages or ():
        texts.append(f"<information>Doc 1(Title: {passage.title}) {passage.text}</information>")
    for question in world.questions[:2000]:
        texts += [question.prompt, *_demonstration(world, question, False)]
    return build_tokenizer(texts)
