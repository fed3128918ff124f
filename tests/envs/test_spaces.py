import json
import multiprocessing
from copy import deepcopy

import numpy as np
import pytest
from gymnasium.vector.utils import (
    batch_space,
    concatenate,
    create_empty_array,
    create_shared_memory,
    iterate,
    read_from_shared_memory,
    write_to_shared_memory,
)

from envs.actions import parse
from envs.spaces import SHARED_BYTES, FreeText
from envs.types import ActionKind
from retrieval.errors import InputError


def test_any_string_is_inside_and_nothing_else():
    space = FreeText()
    for text in ("", "<search>é 日本</search>\n", "x" * 10**6, "\x00", "\ud800"):
        assert text in space
    for thing in (None, 3, b"bytes", ["x"], np.array("x")):
        assert thing not in space


def test_max_length_counts_characters():
    assert "日本" in FreeText(2)
    assert "日本語" not in FreeText(2)
    with pytest.raises(InputError, match="max_length is -1"):
        FreeText(-1)


def test_samples_follow_the_seed_and_reach_every_kind_of_action():
    def draw(seed):
        space = FreeText(seed=seed)
        return [space.sample() for _ in range(300)]

    assert draw(7) == draw(7)
    assert draw(7) != draw(8)
    samples = draw(7)
    assert all(sample in FreeText() for sample in samples)
    assert {parse(sample).kind for sample in samples} == set(ActionKind)
    assert any(not sample.isascii() for sample in samples)


def test_samples_respect_max_length_and_take_no_mask():
    space = FreeText(3, seed=0)
    assert all(len(space.sample()) <= 3 for _ in range(100))
    with pytest.raises(InputError, match="no mask"):
        space.sample(mask=np.ones(3, dtype=np.int8))


def test_equality_and_repr():
    assert FreeText() == FreeText(seed=3)
    assert FreeText(5) != FreeText()
    assert FreeText() != "FreeText()"
    assert (repr(FreeText()), repr(FreeText(5))) == ("FreeText()", "FreeText(5)")


def test_samples_survive_json():
    space = FreeText(seed=0)
    samples = [space.sample() for _ in range(50)]
    assert space.from_jsonable(json.loads(json.dumps(space.to_jsonable(samples)))) == samples


def test_batching_as_vector_environments_do_it():
    space = FreeText(seed=0)
    batch = batch_space(space, 3)
    samples = batch.sample()
    assert len(samples) == 3
    assert samples in batch
    assert list(iterate(batch, samples)) == list(samples)
    empty = create_empty_array(space, 3)
    assert empty == ("", "", "")
    assert concatenate(space, ["a", "<b>", ""], empty) == ("a", "<b>", "")


@pytest.mark.parametrize("space", [FreeText(), FreeText(6)])
def test_shared_memory_holds_the_newest_strings(space):
    memory = create_shared_memory(space, 2, multiprocessing)
    texts = read_from_shared_memory(space, memory, 2)
    assert tuple(texts) == ("", "")
    write_to_shared_memory(space, 1, "日本é\ud800🙂<", memory)
    snapshot = deepcopy(texts)
    write_to_shared_memory(space, 1, "x", memory)
    write_to_shared_memory(space, 0, "\x00", memory)
    assert (texts[0], texts[1], texts[0:2]) == ("\x00", "x", ("\x00", "x"))
    assert snapshot == ("", "日本é\ud800🙂<")
    assert texts[-1] == "x"


def test_a_string_too_long_for_shared_memory_is_an_error_not_a_cut():
    memory = create_shared_memory(FreeText(), 1, multiprocessing)
    write_to_shared_memory(FreeText(), 0, "x" * SHARED_BYTES, memory)
    with pytest.raises(InputError, match="shared_memory=False"):
        write_to_shared_memory(FreeText(), 0, "x" * (SHARED_BYTES + 1), memory)
