"""A 2-layer model built in memory, for tests and smoke runs: real code paths in seconds.

Its byte-pair tokenizer is trained on the prompts and a small atlas world, its weights are drawn
from a fixed seed: the same model in every process, without a file.
"""

from collections.abc import Iterable

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from envs.datasets import atlas

from .prompts import TEMPLATES

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_tiny() -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """The model (0.2 M parameters, float32) and its tokenizer (1,024 tokens)."""
    tokenizer = _build_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        # A logit is at most |state| |embedding| = 8 * 8 * std. With the usual 0.02 that is 1.3: no
        # distribution could become sharp, and nothing be learnt.
        initializer_range=0.25,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    # Weights come from torch's global generator; fork it so that building changes no other draw.
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
    return model, tokenizer


def _build_tokenizer() -> PreTrainedTokenizerFast:
    world = atlas.build(atlas.Config(people=40))
    texts = [f"Doc 1(Title: {p.title}) {p.text}" for p in world.passages or ()]
    for question in world.questions[:400]:
        texts.append(question.prompt)
        if world.demonstrate:
            texts.extend(world.demonstrate(question, False))
    return train_tokenizer([*TEMPLATES.values(), *texts], vocab_size=1024)


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with a chat template, learnt from texts."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|im_end|>"
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
