"""The laboratory's model: a 4-layer transformer that has cloned the expert's grammar.

Its vocabulary is learnt from the atlas world and too small to hold whole names, so that the names
of held-out entities are spelt in known syllables and can be copied from a passage.
"""

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
from agents.tiny import train_tokenizer
from agents.trainer import StepOptions, Trainer
from agents.writing import scratch_folder
from envs.registration import make_env
from envs.types import Dataset

VOCABULARY = 640
STEPS, EPISODES, LR = 250, 16, 3e-3
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
            loss = trainer.update(to_batch(episodes, policy.pad_id), step)["policy_loss"]
            schedule.step()
            bar.set_postfix(loss=f"{loss:.3f}")
            bar.update()


def _tokenizer(world: Dataset, instruction: str) -> PreTrainedTokenizerFast:
    texts = [instruction, *(f"Doc 1(Title: {p.title}) {p.text}" for p in world.passages or ())]
    texts += [question.prompt for question in world.questions[:2000]]
    return train_tokenizer(texts, VOCABULARY)
