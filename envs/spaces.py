"""FreeText: the space of all strings, for actions and observations made of language.

`gymnasium.spaces.Text` is a fixed alphabet of a bounded length: without listing them it rejects
"<", blanks and accents. FreeText holds any `str`, and Gymnasium's vector environments can batch it,
through pipes as well as through shared memory.
"""

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from ctypes import c_uint8
from multiprocessing.sharedctypes import SynchronizedArray
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import utils as vector_utils

from retrieval.errors import InputError

# One environment's share of the shared memory of an unbounded space, in bytes of UTF-8: more text
# than tens of thousands of tokens.
SHARED_BYTES = 1 << 18
_PREFIX = 8

_FRAGMENTS = (
    *("<search>", "</search>", "<answer>", "</answer>", "<think>", "</think>"),
    *("<information>", "</information>", "<", "/", ">", " ", " ", "\n", "\t"),
    *("who wrote", "the capital of", "Paris", "42", "B", "yes", "Doc 1(Title: X)", "."),
    *("é", "ß", "“", "日本", "мир", "🙂", "e\u0301", "\u00a0", "\u200b", "\x00"),
)


class FreeText(spaces.Space[str]):
    """Any string, of at most `max_length` characters if that is given."""

    def __init__(
        self, max_length: int | None = None, seed: int | np.random.Generator | None = None
    ) -> None:
        if max_length is not None and max_length < 0:
            raise InputError(f"FreeText: max_length is {max_length}; give 0 or more, or None")
        self.max_length = max_length
        super().__init__(shape=None, dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Strings of any length have no flat array."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """A string of words, tags and characters of several scripts; often a valid action."""
        if mask is not None or probability is not None:
            raise InputError("FreeText: sampling takes no mask and no probability; leave them out")
        picks = self.np_random.integers(len(_FRAGMENTS), size=self.np_random.integers(12))
        body = "".join(_FRAGMENTS[pick] for pick in picks)
        frame = ("{}", "<search>{}</search>", "<answer>{}</answer>")[self.np_random.integers(3)]
        return frame.format(body)[: self.max_length]

    def contains(self, x: Any) -> bool:
        """Whether x is a string that is not too long."""
        return isinstance(x, str) and (self.max_length is None or len(x) <= self.max_length)

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        """Strings are JSON as they are."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        """The strings that `to_jsonable` wrote."""
        return list(sample_n)

    def __repr__(self) -> str:
        return "FreeText()" if self.max_length is None else f"FreeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreeText) and self.max_length == other.max_length

    @property
    def _shared_bytes(self) -> int:
        """Bytes of shared memory for one string: its UTF-8 length, then its UTF-8."""
        # A character takes at most four bytes.
        text = SHARED_BYTES if self.max_length is None else 4 * self.max_length
        return _PREFIX + text


class _SharedTexts(Sequence[str]):
    """The strings in shared memory as they are now; a deep copy is a tuple of them.

    AsyncVectorEnv reads its shared memory once, at construction, and later returns deep copies of
    what it got. `gymnasium.spaces.Text` gives it a tuple there, which never changes again.
    """

    def __init__(self, memory: np.ndarray) -> None:
        self._rows = memory  # (n, bytes)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        row = self._rows[index]
        length = int.from_bytes(row[:_PREFIX].tobytes(), "little")
        return row[_PREFIX : _PREFIX + length].tobytes().decode("utf-8", "surrogatepass")

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)


def _rows(space: FreeText, memory: "SynchronizedArray[c_uint8]") -> np.ndarray:
    return np.frombuffer(memoryview(memory.get_obj()), dtype=np.uint8).reshape(
        -1, space._shared_bytes
    )


@vector_utils.create_shared_memory.register(FreeText)
def _create_shared_memory(
    space: FreeText, n: int = 1, ctx: Any = multiprocessing
) -> "SynchronizedArray[c_uint8]":
    return ctx.Array(c_uint8, n * space._shared_bytes)


@vector_utils.read_from_shared_memory.register(FreeText)
def _read_from_shared_memory(
    space: FreeText, shared_memory: "SynchronizedArray[c_uint8]", n: int = 1
) -> Sequence[str]:
    return _SharedTexts(_rows(space, shared_memory))


@vector_utils.write_to_shared_memory.register(FreeText)
def _write_to_shared_memory(
    space: FreeText, index: int, value: str, shared_memory: "SynchronizedArray[c_uint8]"
) -> None:
    data = value.encode("utf-8", "surrogatepass")
    room = space._shared_bytes - _PREFIX
    if len(data) > room:
        raise InputError(
            f"FreeText: a string of {len(data)} bytes does not fit into {room} bytes of shared "
            "memory; use AsyncVectorEnv(..., shared_memory=False)"
        )
    record = len(data).to_bytes(_PREFIX, "little") + data
    _rows(space, shared_memory)[index, : len(record)] = np.frombuffer(record, np.uint8)


@vector_utils.create_empty_array.register(FreeText)
def _create_empty_array(
    space: FreeText, n: int = 1, fn: Callable[..., Any] = np.zeros
) -> tuple[str, ...]:
    return ("",) * n
