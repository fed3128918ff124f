"""Several streams in one, balanced at every prefix."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def in_turn(streams: Iterable[Iterable[T]]) -> Iterator[T]:
    """One item of each stream in turn; a stream that runs dry drops out."""
    alive = [iter(stream) for stream in streams]
    while alive:
        rest = []
        for stream in alive:
            try:
                item = next(stream)
            except StopIteration:
                continue
            yield item
            rest.append(stream)
        alive = rest
