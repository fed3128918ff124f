"""The resident memory of this process as Linux counts it."""

from pathlib import Path


def read(key: str) -> int:
    """A line of /proc/self/status that counts kB ("VmRSS", "VmHWM"), in bytes.

    Raises:
        KeyError: There is no such line.
    """
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def forget_peak() -> None:
    """Let the kernel's record of the most resident memory (VmHWM) start again from now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
