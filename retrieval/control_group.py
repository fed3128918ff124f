"""What the control groups of this process leave it of the machine's memory."""

from collections.abc import Iterator
from pathlib import Path


def control_group_free(root: Path = Path("/")) -> int | None:
    """Bytes left below the tightest memory limit; None if no group has one.

    Pages of files that the kernel can drop count as free.

    Args:
        root: Where /proc and /sys are found; another folder for tests.
    """
    left = [
        limit - used + droppable
        for limit, used, droppable in _limits(root)
        if limit < 1 << 60  # version 1 writes a huge number where there is no limit
    ]
    return max(0, min(left)) if left else None


def _limits(root: Path) -> Iterator[tuple[int, int, int]]:
    """(limit, used, droppable) of this process's group and of each one above it."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount = root / "sys/fs/cgroup"
            names = ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = mount / path.lstrip("/")
        # In a container the path may be the host's, and its own group the root.
        for folder in (group, *group.parents):
            if not folder.is_relative_to(mount):
                break
            if (found := _read(folder, *names)) is not None:
                yield found


def _read(folder: Path, most: str, now: str, cached: str) -> tuple[int, int, int] | None:
    try:
        limit, used = ((folder / name).read_text(encoding="ascii").strip() for name in (most, now))
        stat = dict(
            line.split(" ", 1)
            for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        )
    except (OSError, ValueError):
        return None
    if limit == "max":
        return None
    return int(limit), int(used), int(stat.get(cached, 0))
