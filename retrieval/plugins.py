"""A folder is a registry: a name is a module of that folder, a dotted name any importable module.

A plug-in is one file: a docstring, a frozen dataclass `Config`, and a function `build`. A folder
whose plug-ins may offer another function instead lists all of them in `ENTRY_POINTS`.
"""

import importlib
import pkgutil
from types import ModuleType

from .errors import InputError


def names(package: str) -> list[str]:
    """The plug-ins of a package such as "retrieval.retrievers", sorted."""
    folder = importlib.import_module(package).__path__
    return sorted(module.name for module in pkgutil.iter_modules(folder))


def entry_points(package: str) -> tuple[str, ...]:
    """The functions of which a plug-in of this package defines at least one."""
    found: tuple[str, ...] = getattr(importlib.import_module(package), "ENTRY_POINTS", ("build",))
    return found


def load(package: str, name: str) -> ModuleType:
    """Import the plug-in `name` of `package`; a dotted `name` is imported as it stands.

    Raises:
        InputError: No such module, or it lacks `Config` or every entry point.
    """
    kind = package.rpartition(".")[2]
    dotted = "." in name and not name.startswith(".")
    target = name if dotted else f"{package}.{name}"
    try:
        module = importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name is None or not (target == error.name or target.startswith(error.name + ".")):
            raise InputError(
                f"{kind}: {name!r} needs the missing package {error.name!r}: pip install it"
            ) from error
        known = ", ".join(names(package))
        raise InputError(
            f"{kind}: unknown name {name!r}; choose one of {known}, or a dotted module name"
        ) from error
    entries = entry_points(package)
    missing = [] if hasattr(module, "Config") else ["Config"]
    if not any(hasattr(module, entry) for entry in entries):
        missing.append(" or ".join(entries))
    if missing:
        raise InputError(f"{kind}: module {target} defines no {' and no '.join(missing)}")
    return module
