"""Rows from the Hugging Face hub, or from a local folder of its Parquet, CSV or JSON files.

The `datasets` library reads them; code that a data set carries is never run.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from retrieval.errors import InputError

PREFIX = "hf:"
_ADDRESS = re.compile(r"hf:(?P<repo>[^:@]*)(?::(?P<configuration>[^:@]+))?(?:@(?P<split>[^@]+))?")


@dataclass(frozen=True, slots=True)
class HubAddress:
    """Where a set lies on the hub; written "hf:repo:configuration@split".

    Attributes:
        repo: "owner/name", or a local folder.
        configuration: The data set's own configuration; None for its default.
        split: The data set's own split.
    """

    repo: str
    configuration: str | None = None
    split: str = "train"

    def __str__(self) -> str:
        configuration = f":{self.configuration}" if self.configuration else ""
        return f"{PREFIX}{self.repo}{configuration}@{self.split}"


def addresses(path: str | None, own: tuple[HubAddress, ...], name: str) -> tuple[HubAddress, ...]:
    """What a path that is no file means.

    Args:
        path: None or "hf:" for a set's own addresses; "hf:@test" for another split of them;
            "hf:owner/name", "hf:owner/name:configuration@split" for another data set.
        own: The set's own addresses; empty where it is not on the hub.
        name: The set's name, for messages.

    Raises:
        InputError: Not of this form, or a set without an address of its own is asked for it.
    """
    parts = _ADDRESS.fullmatch(path or PREFIX)
    if parts is None:
        raise InputError(
            f"{path}: not an address on the hub; write hf:owner/name:configuration@split, of which "
            "configuration and split may be left out"
        )
    repo, configuration, split = parts["repo"], parts["configuration"], parts["split"]
    if repo:
        return (HubAddress(repo, configuration, split or "train"),)
    if not own:
        raise InputError(f"{name}: has no known place on the hub; give a path to its file")
    return tuple(
        replace(
            address,
            configuration=configuration or address.configuration,
            split=split or address.split,
        )
        for address in own
    )


def hub_rows(wanted: tuple[HubAddress, ...]) -> Iterator[tuple[str, object]]:
    """The rows of one or more data sets, each with its place for messages.

    Raises:
        InputError: One cannot be had.
    """
    for address in wanted:
        for number, row in enumerate(load(address), 1):
            yield f"{address} row {number}" if len(wanted) > 1 else f"row {number}", row


def load(address: HubAddress, cache_dir: str | None = None) -> Any:
    """The data set as a `datasets.Dataset`.

    Args:
        address: Where it lies.
        cache_dir: Where downloads go; None for the library's default.

    Raises:
        InputError: It cannot be had: no hub, no such name, no such split.
    """
    # Imported here: the library takes seconds to load, and every command lists this folder.
    import datasets

    try:
        return datasets.load_dataset(
            address.repo, address.configuration, split=address.split, cache_dir=cache_dir
        )
    except Exception as error:  # the hub's client raises some twenty kinds, from five libraries
        cause = str(error).strip().partition("\n")[0] or type(error).__name__
        raise InputError(
            f"{address.repo}: cannot be loaded ({cause}); check its name, configuration and split, "
            "and that the hub can be reached, or give a local folder of Parquet files, or a file"
        ) from error
