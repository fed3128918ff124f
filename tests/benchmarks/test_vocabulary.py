"""The laboratory's tokenizer: nothing is lost, names are syllables, the rest are words."""

import random

import pytest
from transformers import PreTrainedTokenizerFast

from benchmarks.laboratory import pupil
from envs.datasets import atlas
from envs.types import Dataset
from envs.worlds.names import Namer

INSTRUCTION = "Search, then answer."


@pytest.fixture(scope="module")
def world() -> Dataset:
    return atlas.build(atlas.Config(people=60, hops=(1, 2, 3)))


@pytest.fixture(scope="module")
def tokenizer(world: Dataset) -> PreTrainedTokenizerFast:
    return pupil._tokenizer(world, INSTRUCTION)


def pieces(tokenizer: PreTrainedTokenizerFast, text: str) -> list[str]:
    return [tokenizer.decode([token]) for token in tokenizer.encode(text)]


@pytest.mark.parametrize(
    "text", ["", "  a\n\tb ", "<search>Žižkov 東京</search>", "\x00 \U0001f600", "1849"]
)
def test_any_text_comes_back(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_every_passage_comes_back(tokenizer: PreTrainedTokenizerFast, world: Dataset) -> None:
    for passage in world.passages or ():
        assert tokenizer.decode(tokenizer.encode(passage.text)) == passage.text


def test_a_name_of_another_world_is_spelt_in_syllables(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    assert pieces(tokenizer, "<search>Rulsir Pado born</search>") == [
        *("<search>", "Rul", "sir", " Pa", "do", " born", "</search>")
    ]
    # A new name's word is a stem of one syllable and a last syllable.
    for word in Namer(random.Random(5), set()).words(300):
        assert len(pieces(tokenizer, f" {word}")) == len(pieces(tokenizer, word)) == 2


def test_a_stop_string_ends_with_its_own_token(tokenizer: PreTrainedTokenizerFast) -> None:
    """The engine stops at the token that completes it: nothing may follow in the same token."""
    for tag in ("</search>", "</answer>"):
        assert pieces(tokenizer, f"x{tag}\n")[-2:] == [tag, "\n"]
