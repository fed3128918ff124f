"""YAML files and dotted flags -> frozen dataclasses, strictly; and back to YAML.

jsonargparse does the parsing. What is added: slots, whose fields depend on the plug-in that `name`
chooses, and errors of one line that name the key and the valid ones.
"""

import argparse
import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser, Namespace

from retrieval import plugins
from retrieval.errors import InputError


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a plug-in.

    Attributes:
        package: The folder whose modules are the choices, such as "envs.datasets".
        default: The name used when none is given.
        options: Options that every plug-in of the slot shares, a frozen dataclass; or None.
    """

    package: str
    default: str
    options: type | None = None


@dataclass(frozen=True, slots=True)
class Plugin:
    """A filled slot.

    Attributes:
        package: The folder it comes from.
        name: Its name there, or a dotted module name.
        config: An instance of the module's `Config`.
        options: The slot's shared options, or None.
    """

    package: str
    name: str
    config: Any
    options: Any = None

    def build(self, *args: Any) -> Any:
        """Call the module's `build(config, *args)`."""
        return plugins.load(self.package, self.name).build(self.config, *args)


Layout = Mapping[str, type | Slot]


def parse(
    parser: ArgumentParser, layout: Layout, argv: Sequence[str], defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], Namespace]:
    """Read a command line.

    Args:
        parser: With the command's own flags; `--config` and those of the layout are added here.
        layout: Section name -> dataclass, or slot name -> Slot.
        argv: The arguments.
        defaults: Section -> key -> value, below the YAML files and the flags. A slot's are used
            only while its name is not changed.

    Returns:
        Section or slot name -> dataclass instance or Plugin; and the raw namespace.

    Raises:
        InputError: An unknown key, a wrong type, a missing or malformed file.
    """
    parser.exit_on_error = False
    parser.add_argument("--config", action="config", help="A YAML file; flags after it override.")
    names = {
        section: _chosen_name(section, slot, argv, defaults)
        for section, slot in layout.items()
        if isinstance(slot, Slot)
    }
    for section, kind in layout.items():
        _add_section(parser, section, kind, names)
    parser.set_defaults(_flat(defaults, layout, names))
    try:
        namespace = parser.parse_args(list(argv))
    except (argparse.ArgumentError, TypeError, ValueError) as error:
        raise InputError(_one_line(error, parser)) from error
    values = {
        section: _fill(section, kind, namespace[section], names) for section, kind in layout.items()
    }
    return values, namespace


def peek(argv: Sequence[str], flag: str, default: str | None = None) -> str | None:
    """The value of one flag, before the parser that knows all of them can be built.

    Raises:
        InputError: The flag stands there without a value.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument(flag, dest="value", default=default)
    try:
        value: str | None = parser.parse_known_args(list(argv))[0].value
    except argparse.ArgumentError as error:
        raise InputError(str(error)) from error
    return value


def _add_section(
    parser: ArgumentParser, section: str, kind: type | Slot, names: Mapping[str, str]
) -> None:
    *shared, own = _dataclasses(section, kind, names)
    parser.add_class_arguments(own, section, fail_untyped=True)
    # A second class under the same key would be a second group of that name, which is refused.
    for option in (field for group in shared for field in dataclasses.fields(group)):
        parser.add_argument(f"--{section}.{option.name}", type=option.type, default=option.default)
    if isinstance(kind, Slot):
        choices = ", ".join(plugins.names(kind.package))
        parser.add_argument(
            f"--{section}.name",
            type=str,
            default=names[section],
            help=f"One of {choices}, or a dotted module name.",
        )


def _dataclasses(section: str, kind: type | Slot, names: Mapping[str, str]) -> list[type]:
    if not isinstance(kind, Slot):
        return [kind]
    config = plugins.load(kind.package, names[section]).Config
    return [config] if kind.options is None else [kind.options, config]


def _fill(section: str, kind: type | Slot, values: Namespace, names: Mapping[str, str]) -> Any:
    groups = [_instance(group, values) for group in _dataclasses(section, kind, names)]
    if not isinstance(kind, Slot):
        return groups[0]
    return Plugin(kind.package, names[section], groups[-1], groups[0] if kind.options else None)


def _instance(group: type, values: Namespace) -> Any:
    wanted = {f.name for f in dataclasses.fields(group)}
    return group(**{key: value for key, value in vars(values).items() if key in wanted})


def _chosen_name(section: str, slot: Slot, argv: Sequence[str], defaults: Mapping[str, Any]) -> str:
    """The plug-in's name must be known before its flags can be: look ahead for it."""
    name = str(defaults.get(section, {}).get("name", slot.default))
    flag = f"--{section}.name"
    for position, argument in enumerate(argv):
        key, equals, value = argument.partition("=")
        if key not in (flag, "--config"):
            continue
        if not equals:
            value = argv[position + 1] if position + 1 < len(argv) else ""
        if key == flag:
            name = value
        else:
            content = read_yaml(Path(value)).get(section)
            name = str((content if isinstance(content, dict) else {}).get("name", name))
    return name


def _flat(defaults: Mapping[str, Any], layout: Layout, names: Mapping[str, str]) -> dict[str, Any]:
    """Dotted defaults; a slot whose plug-in has changed keeps only what all plug-ins share."""
    flat: dict[str, Any] = {}
    for section, kind in layout.items():
        content = dict(defaults.get(section, {}))
        if isinstance(kind, Slot):
            changed = content.pop("name", kind.default) != names[section]
            shared = {f.name for f in dataclasses.fields(kind.options)} if kind.options else set()
            content = {k: v for k, v in content.items() if not changed or k in shared}
        flat |= {f"{section}.{key}": value for key, value in content.items()}
    return flat


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file whose top level is a mapping.

    Raises:
        InputError: Missing, unreadable, malformed, or not a mapping.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"config: cannot read {path}: {error.strerror}; check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = " ".join(str(error).split())
        raise InputError(f"config: {path} is not valid YAML: {place}") from error
    if not isinstance(content, dict):
        raise InputError(f"config: {path} must hold sections such as 'model:' at its top level")
    return content


def _one_line(error: Exception, parser: ArgumentParser) -> str:
    message = " ".join(str(error).split())
    known = [
        action.dest for action in parser._actions if "." in action.dest or action.dest.isalpha()
    ]
    words = [word.strip("-'\",:") for word in message.split()]
    unknown = any(s in message for s in ("unrecognized", "does not accept", "is not accepted"))
    if not unknown:
        return message
    groups = {key.split(".")[0] for key in known}
    section = next((w.split(".")[0] for w in words if w.split(".")[0] in groups), None)
    candidates = [key for key in known if section is None or key.startswith(f"{section}.")]
    key = words[-1] if section is None or "accept" in message else words[2]
    target = key if "." in key else f"{section}.{key}"
    close = difflib.get_close_matches(target, candidates, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{message}{hint} Valid keys: {', '.join(sorted(candidates))}"


def to_yaml(values: Mapping[str, Any]) -> str:
    """The resolved configuration; `parse` of it gives equal values."""
    return yaml.safe_dump(
        {section: _plain(value) for section, value in values.items()}, sort_keys=False
    )


def _plain(value: Any) -> dict[str, Any]:
    if not isinstance(value, Plugin):
        return {k: list(v) if isinstance(v, tuple) else v for k, v in _fields(value).items()}
    shared = {} if value.options is None else _plain(value.options)
    return {"name": value.name, **shared, **_plain(value.config)}


def _fields(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
