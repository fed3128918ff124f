"""The fields of a request, read one by one: types, sizes and unknown names are checked here."""

import json
from collections.abc import Mapping

from .limits import Limits


class Refused(Exception):
    """A request that is not answered.

    Attributes:
        status: HTTP status, 400 or above.
        reason: One line for the client.
        retry_after_s: When to ask again; None where that would not help.
    """

    def __init__(self, status: int, reason: str, retry_after_s: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.retry_after_s = status, reason, retry_after_s


def read_object(body: bytes) -> dict[str, object]:
    """The JSON object of a request body.

    The standard library's parser, because a query may be any string: stricter ones refuse the
    escape of a lone surrogate.

    Raises:
        Refused: 400, anything else.
    """
    try:
        value = json.loads(body)
    except json.JSONDecodeError as error:
        raise Refused(400, f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except (ValueError, RecursionError):  # not UTF-8, an endless number, nested without end
        raise Refused(400, "not JSON: send one object in UTF-8") from None
    if not isinstance(value, dict):
        raise Refused(400, "the body must be a JSON object")
    return value


class Fields:
    """Named values, of a JSON object or of a URL's query, where all values are text."""

    def __init__(self, values: Mapping[str, object], limits: Limits, in_url: bool = False) -> None:
        self._values, self._limits, self._in_url = values, limits, in_url
        self._known: list[str] = []

    def query(self, name: str) -> str:
        """One query.

        Raises:
            Refused: 400, missing or no string; 413, too long.
        """
        return self._query(self._required(name), name)

    def queries(self, name: str) -> list[str]:
        """A list of queries, maybe empty.

        Raises:
            Refused: 400, missing or no list of strings; 413, too many or too long.
        """
        values = self._required(name)
        if not isinstance(values, list):
            raise Refused(400, f"{name} must be a list of strings, not {_kind(values)}")
        if len(values) > self._limits.max_queries:
            raise Refused(
                413, f"{name} has {len(values)} queries: send at most {self._limits.max_queries}"
            )
        return [self._query(value, f"{name}[{place}]") for place, value in enumerate(values)]

    def k(self, *names: str, default: int) -> int:
        """How many passages; any one of the names says it, null and nothing mean `default`.

        Raises:
            Refused: 400, no whole number, below 1 or above the limit, or two names at once.
        """
        self._known += names
        given = [name for name in names if self._values.get(name) not in (None, "")]
        if not given:
            return min(default, self._limits.max_k)
        if len(given) > 1:
            raise Refused(400, f"{' and '.join(given)} say the same: send one of them")
        (name,) = given
        value = self._values[name]
        if self._in_url and isinstance(value, str) and value.isascii() and value[:12].isdigit():
            value = int(value[:12])
        if not isinstance(value, int) or isinstance(value, bool):
            raise Refused(400, f"{name} must be a whole number, not {_kind(value)}")
        if not 1 <= value <= self._limits.max_k:
            shown = str(value)[:20]  # it may have thousands of digits
            raise Refused(400, f"{name} is {shown}: ask for 1 to {self._limits.max_k} passages")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """A switch; null and nothing mean `default`.

        Raises:
            Refused: 400, neither true nor false.
        """
        self._known.append(name)
        value = self._values.get(name)
        if self._in_url and isinstance(value, str):
            value = {"true": True, "false": False}.get(value.lower(), value)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise Refused(400, f"{name} must be true or false, not {_kind(value)}")
        return value

    def no_others(self) -> None:
        """Check that all fields have been asked for.

        Raises:
            Refused: 400, one has not.
        """
        for name in self._values:
            if name not in self._known:
                raise Refused(
                    400, f"unknown field {name[:50]!a}; this dialect has {', '.join(self._known)}"
                )

    def _required(self, name: str) -> object:
        self._known.append(name)
        value = self._values.get(name)
        if value is None:
            raise Refused(400, f"{name} is missing")
        return value

    def _query(self, value: object, place: str) -> str:
        if not isinstance(value, str):
            raise Refused(400, f"{place} must be a string, not {_kind(value)}")
        if len(value) > self._limits.max_query_chars:
            raise Refused(
                413,
                f"{place} has {len(value)} characters: send at most {self._limits.max_query_chars}",
            )
        return value


def _kind(value: object) -> str:
    """A value's type in the words of JSON."""
    if value is None:
        return "null"
    kinds: dict[type, str] = {
        bool: "a boolean",
        int: "a whole number",
        float: "a decimal number",
        str: "a string",
        list: "a list",
    }
    return kinds.get(type(value), "an object")
