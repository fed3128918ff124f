"""Real models of two small layers with random weights: what no hub is needed for."""

import string
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizerFast

WORDS = ["query", "passage", "represent", "this", "sentence", "for", "radium", "heron", "river"]


def tiny_bert(folder: Path, seed: int = 0, hidden: int = 32) -> Path:
    """A BERT encoder as save_pretrained writes it; no sentence-transformers files beside it."""
    return _saved(BertModel, folder, seed, hidden)


def tiny_cross_encoder(folder: Path, labels: int = 1) -> Path:
    """A BERT that scores pairs."""
    return _saved(BertForSequenceClassification, folder, 0, 32, num_labels=labels)


def _saved(kind: Any, folder: Path, seed: int, hidden: int, **settings: Any) -> Path:
    folder.mkdir(parents=True)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    letters = string.ascii_lowercase + string.digits + string.punctuation
    tokens += [*letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    tokenizer.model_max_length = 128
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(tokens),
        hidden_size=hidden,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
        initializer_range=0.5,  # so that different texts get plainly different vectors
        **settings,
    )
    kind(config).eval().save_pretrained(folder)
    return folder
