"""The page for people: one HTML file, sent with a policy under which only its own script runs."""

import base64
import hashlib
import re
from pathlib import Path

HTML = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")


def sources(html: str, tag: str) -> str:
    """The hashes of a page's inline blocks of one kind, as its policy names them."""
    blocks = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    digests = [hashlib.sha256(block.encode()).digest() for block in blocks]
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


# Passages are shown as text; should one slip through as markup, its scripts still do not run.
HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; script-src {sources(HTML, 'script')}; "
        f"style-src {sources(HTML, 'style')}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
