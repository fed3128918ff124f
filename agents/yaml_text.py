"""YAML, with jsonargparse's idea of a number, and no key twice."""

import re
from typing import Any

import yaml

# jsonargparse takes 1e5 for a number; YAML 1.1, and so PyYAML, for a string. Both must agree, or a
# string "1e5" would not come back.
_EXPONENT = re.compile(r"[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+$")


def load(text: str) -> Any:
    """What a text says.

    Raises:
        yaml.YAMLError: Malformed; a tag that makes an object; a key that stands twice in a mapping.
    """
    return yaml.load(text, _Loader)


def dump(value: Any) -> str:
    """The text of plain values, keys in their order; `load` of it gives equal ones."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False)


class _Loader(yaml.SafeLoader):
    """Reads numbers as jsonargparse does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As the base class, which lets the last of equal keys win."""
        known: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in known:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value!r} stands twice here; leave one of them out",
                    problem_mark=key.start_mark,
                )
            known.add(key.value)
        made: dict[Any, Any] = super().construct_mapping(node, deep)
        return made


class _Dumper(yaml.SafeDumper):
    """Quotes the strings that jsonargparse would take for numbers."""


for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))
