"""YAML files and dotted flags -> frozen dataclasses, strictly; and back to YAML.

jsonargparse does the parsing. What is added: slots, whose fields depend on the plug-in that `name`
chooses, and errors of one line that name the key and the valid ones.
"""

import argparse
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docstring_parser
import yaml
from jsonargparse import ArgumentParser, Namespace

from retrieval import plugins
from retrieval.errors import InputError
from retrieval.parser_errors import explain

from . import yaml_text


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

    @property
    def module(self) -> Any:
        """The plug-in's module."""
        return plugins.load(self.package, self.name)

    def build(self, *args: Any) -> Any:
        """Call the module's `build(config, *args)`."""
        return self.module.build(self.config, *args)


Layout = Mapping[str, type | Slot]
_NO_KEYS = frozenset({"help", "config", "print_config", "print_shtab"})


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
    parser.allow_abbrev = False
    parser.add_argument("--config", action="config", help="A YAML file; flags after it override.")
    names = chosen_names(layout, argv, defaults)
    for section, kind in layout.items():
        _add_section(parser, section, kind, names)
    # As the first file, not as the parser's defaults: those it would neither check nor convert.
    below = _unchanged(defaults, layout, names)
    first = ["--config", yaml_text.dump(below)] if below else []
    try:
        namespace = parser.parse_args([*first, *argv])
    except (argparse.ArgumentError, TypeError, ValueError) as error:
        keys = {action.dest for action in parser._actions if action.dest not in _NO_KEYS}
        raise InputError(explain(error, keys, names)) from error
    for section, name in names.items():
        if namespace[section].name != name:
            raise InputError(f"{section}.name: give it as --{section}.name, not inside --{section}")
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


def chosen_names(
    layout: Layout, argv: Sequence[str], defaults: Mapping[str, Any]
) -> dict[str, str]:
    """Slot -> plug-in: the names must be known before the plug-ins' flags can be; look ahead."""
    names = {section: kind.default for section, kind in layout.items() if isinstance(kind, Slot)}

    def adopt(sections: Mapping[str, Any]) -> None:
        for section in names:
            if (name := sections.get(section, {}).get("name")) is not None:
                names[section] = str(name)

    adopt(defaults)
    for flag, value in _given(argv):
        if flag == "--config":
            adopt(read_yaml(Path(value), layout))
        elif flag.endswith(".name") and (section := flag[2:-5]) in names:
            names[section] = value
    return names


def _given(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Flags with their values, written with a space or with "="."""
    for position, argument in enumerate(argv):
        flag, equals, value = argument.partition("=")
        if equals:
            yield flag, value
        elif position + 1 < len(argv):
            yield flag, argv[position + 1]


def _add_section(
    parser: ArgumentParser, section: str, kind: type | Slot, names: Mapping[str, str]
) -> None:
    *shared, own = _dataclasses(section, kind, names)
    options = [field for group in shared for field in dataclasses.fields(group)]
    if isinstance(kind, Slot):
        taken = {"name", *(option.name for option in options)}
        for field in dataclasses.fields(own):
            if field.name in taken:
                raise InputError(
                    f"{section}.name: the Config of {names[section]!r} has a field "
                    f"{field.name!r}, which the slot uses itself; rename it"
                )
    parser.add_class_arguments(own, section, fail_untyped=True)
    # A second class under the same key would be a second group of that name, which is refused.
    helps = {key: text for group in shared for key, text in _descriptions(group).items()}
    for option in options:
        parser.add_argument(
            f"--{section}.{option.name}",
            type=option.type,
            default=option.default,
            help=helps[option.name],
        )
    if isinstance(kind, Slot):
        choices = ", ".join(plugins.names(kind.package))
        parser.add_argument(
            f"--{section}.name",
            type=str,
            default=names[section],
            help=f"One of {choices}, or a dotted module name.",
        )


def _descriptions(group: type) -> dict[str, str]:
    """What a dataclass's docstring says of its fields."""
    documented = docstring_parser.parse(group.__doc__ or "").params
    return {entry.arg_name: " ".join((entry.description or "").split()) for entry in documented}


def _dataclasses(section: str, kind: type | Slot, names: Mapping[str, str]) -> list[type]:
    if not isinstance(kind, Slot):
        return [kind]
    config = plugins.load(kind.package, names[section]).Config
    return [config] if kind.options is None else [kind.options, config]


def _fill(section: str, kind: type | Slot, values: Namespace, names: Mapping[str, str]) -> Any:
    try:
        groups = [_instance(group, values) for group in _dataclasses(section, kind, names)]
    except InputError as error:
        raise InputError(f"{section}.{error}") from error
    if not isinstance(kind, Slot):
        return groups[0]
    return Plugin(kind.package, names[section], groups[-1], groups[0] if kind.options else None)


def _instance(group: type, values: Namespace) -> Any:
    wanted = {f.name for f in dataclasses.fields(group)}
    return group(**{key: value for key, value in vars(values).items() if key in wanted})


def _unchanged(
    defaults: Mapping[str, Any], layout: Layout, names: Mapping[str, str]
) -> dict[str, Any]:
    """The defaults; of a slot whose plug-in has changed, only what all plug-ins share."""
    kept = {section: dict(defaults.get(section, {})) for section in layout}
    for section, kind in layout.items():
        if isinstance(kind, Slot) and kept[section].pop("name", kind.default) != names[section]:
            shared = {f.name for f in dataclasses.fields(kind.options)} if kind.options else set()
            kept[section] = {k: v for k, v in kept[section].items() if k in shared}
    return {section: content for section, content in kept.items() if content}


def read_yaml(path: Path, layout: Layout) -> dict[str, Any]:
    """A YAML file whose top level is a mapping, and so is each section of the layout in it.

    Raises:
        InputError: Missing, unreadable, malformed, or not of that shape.
    """
    try:
        content = yaml_text.load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"config: cannot read {path}: {error.strerror}; check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = " ".join(str(error).split())
        raise InputError(f"config: {path} is not valid YAML: {place}") from error
    if not isinstance(content, dict):
        raise InputError(f"config: {path} must hold sections such as 'model:' at its top level")
    for section in layout:
        if section in content and not isinstance(content[section], dict):
            raise InputError(
                f"config: {path}: section {section!r} is {content[section]!r}; give it keys, or "
                "leave it out"
            )
    return content


def sections(config: Any) -> dict[str, Any]:
    """Section -> its options or plug-in, of a whole configuration."""
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}


def to_yaml(values: Mapping[str, Any]) -> str:
    """The resolved configuration; `parse` of it gives equal values."""
    return yaml_text.dump(plain(values))


def plain(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The resolved configuration in YAML's own types."""
    return {section: _plain(value) for section, value in values.items()}


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, Plugin):
        shared = {} if value.options is None else _plain(value.options)
        return {"name": value.name, **shared, **_plain(value.config)}
    fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}
