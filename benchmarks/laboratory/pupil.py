"""The laboratory's model: a 4-layer transformer that has cloned the expert's grammar.

Half its demonstrations or more stop one hop too early, so that it can search again but mostly does
not: what reinforcement learning has to find.
"""

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
from envs.types import Dataset

from .vocabulary import MIN_COUNT, build_tokenizer

STEPS, EPISODES, LR = 600, 8, 3e-3
READING_SHARE = 0.6  # of the steps first learn all tokens: names recur in what is read, too
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
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def _clone(policy: SearchPolicy, world: Dataset, instruction: str, seed: int) -> None:
    """Behaviour cloning of all weights."""
    assert world.demonstrate is not None
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
                texts = world.demonstrate(question, bool(random.random() < STOP_EARLY_SHARE))
                episodes.append(demonstrate(question, texts, env, framing))
            batch = to_batch(episodes, policy.pad_id)
            if step < READING_SHARE * STEPS:
                batch = _all_tokens(batch)
            loss = trainer.update(batch, step)["policy_loss"]
            schedule.step()
            bar.set_postfix(loss=f"{loss:.3f}")
            bar.update()


def _all_tokens(batch: Batch) -> Batch:
    """The batch as if every token but the first had been sampled."""
    mask = batch.attention_mask.clone()
    mask[:, 0] = False
    return replace(
        batch, action_mask=mask, turn_ids=torch.where(mask, batch.turn_ids.clamp(min=0), -1)
    )


def _tokenizer(world: Dataset, instruction: str) -> PreTrainedTokenizerFast:
    assert world.demonstrate is not None
    texts = [instruction] * MIN_COUNT
    for passage in world.passages or ():
        texts.append(f"<information>Doc 1(Title: {passage.title}) {passage.text}</information>")
    for question in world.questions[:2000]:
        texts += [question.prompt, *world.demonstrate(question, False)]
    return build_tokenizer(texts)
