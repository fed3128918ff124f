"""How much memory this process holds."""

from pathlib import Path

import pytest

_STATUS = Path("/proc/self/status")

needs_proc = pytest.mark.skipif(not _STATUS.exists(), reason="no /proc here")


def private_bytes() -> int:
    """Memory that is no file's: mapped pages do not count."""
    lines = _STATUS.read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])
