"""A report as one file that a browser reads without a network: its data, script and style in it.

`pages/page.html` and `pages/page.js` are what all reports share; a report adds a body and a script.
"""

import argparse
import base64
import gzip
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from retrieval.errors import InputError
from retrieval.server.page import sources

_PAGES = Path(__file__).parent / "pages"
# "<" and its like could end the script element. A lone surrogate is none of UTF-8's letters.
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
# Data beyond this many characters are gzipped; a browser unpacks them before it shows them.
_MOST_PLAIN = 50_000_000


class Page:
    """A kind of report."""

    def __init__(self, name: str, title: str) -> None:
        """Put the page together.

        Args:
            name: Of its body and its script in `pages/`.
            title: While it has no better one.
        """
        parts = {
            "TITLE": title,
            "BODY": _read(f"{name}.html"),
            "SHARED": _read("page.js"),
            "SCRIPT": _read(f"{name}.js"),
        }
        html = re.sub("__([A-Z]+)__", lambda m: parts.get(m[1], m[0]), _read("page.html"))
        # Only the page's own script and style, by their hashes, and no address at all: should text
        # of a model ever be read as markup, it still runs nothing and asks nobody.
        policy = (
            f"default-src 'none'; script-src {sources(html, 'script')}; "
            f"style-src {sources(html, 'style')}; img-src data:; base-uri 'none'; "
            "form-action 'none'"
        )
        self._head, _, self._tail = html.replace("__POLICY__", policy).partition("__DATA__")

    def render(self, content: Mapping[str, Any], most_plain: int = _MOST_PLAIN) -> str:
        """The page with its data in it.

        Args:
            content: What the page's script reads.
            most_plain: Data of more characters are packed.
        """
        data, packing = embed(content), "none"
        if len(data) > most_plain:
            packed = gzip.compress(data.encode(), mtime=0)
            data, packing = base64.b64encode(packed).decode(), "gzip"
        return self._head.replace("__PACKING__", packing) + data + self._tail


def command(
    module: str,
    description: str | None,
    folder: str,
    write: Callable[[Path], object],
    argv: Sequence[str] | None,
) -> int:
    """Run the command that makes a report of a folder; 2 for bad input.

    Args:
        module: Whose command it is.
        description: For its help.
        folder: What to give, in words, with an example.
        write: Makes the report and returns where it is.
        argv: The arguments; None for the process's.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("folder", nargs="*", help=f"One {folder}.")
    given, unknown = parser.parse_known_args(argv)
    try:
        if unknown or len(given.folder) != 1:
            raise InputError(f"give one {folder}, and nothing else")
        print(write(Path(given.folder[0])))
    except InputError as error:
        print(f"{module.rpartition('.')[2]}: error: {error}", file=sys.stderr)
        return 2
    return 0


def embed(value: Any) -> str:
    """JSON that may stand inside a script element, whatever text it holds.

    JSON knows neither NaN nor infinity: they become null.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        known = json.loads(json.dumps(value), parse_constant=lambda name: None)
        text = json.dumps(known, ensure_ascii=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _read(name: str) -> str:
    return (_PAGES / name).read_text(encoding="utf-8")
