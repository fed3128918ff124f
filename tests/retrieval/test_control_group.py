"""Memory limits of control groups, both versions, read from a tree made here."""

from pathlib import Path

import pytest

from retrieval import estimate
from retrieval.control_group import control_group_free

MIB = 1 << 20


def group(folder: Path, version: int, limit: str, used: int, cached: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current", "inactive_file")
    if version == 1:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {cached}\n")


def member(root: Path, line: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"5:devices:/\n{line}\n")


def test_version_2_the_tightest_group_on_the_way_up_counts(tmp_path) -> None:
    member(tmp_path, "0::/outer/inner")
    base = tmp_path / "sys/fs/cgroup"
    group(base / "outer", 2, str(100 * MIB), 70 * MIB, 10 * MIB)  # 40 MiB left
    group(base / "outer/inner", 2, str(90 * MIB), 30 * MIB, 0)  # 60 MiB left
    assert control_group_free(tmp_path) == 40 * MIB


def test_version_1_in_a_container_whose_own_group_is_the_root(tmp_path) -> None:
    member(tmp_path, "4:memory:/docker/abc")
    group(tmp_path / "sys/fs/cgroup/memory", 1, str(64 * MIB), 16 * MIB, 4 * MIB)
    assert control_group_free(tmp_path) == 52 * MIB


def test_more_in_use_than_allowed_leaves_nothing(tmp_path) -> None:
    member(tmp_path, "0::/")
    group(tmp_path / "sys/fs/cgroup", 2, str(MIB), 3 * MIB, 0)
    assert control_group_free(tmp_path) == 0


@pytest.mark.parametrize(("version", "limit"), [(2, "max"), (1, str((1 << 63) - 4096))])
def test_no_limit_is_no_limit(tmp_path, version, limit) -> None:
    member(tmp_path, "0::/" if version == 2 else "4:memory:/")
    group(tmp_path / "sys/fs/cgroup" / ("memory" if version == 1 else ""), version, limit, MIB, 0)
    assert control_group_free(tmp_path) is None


def test_without_control_groups_there_is_no_limit(tmp_path) -> None:
    assert control_group_free(tmp_path) is None


def test_the_free_memory_is_never_more_than_a_group_leaves(monkeypatch) -> None:
    monkeypatch.setattr(estimate, "control_group_free", lambda: 12345)
    assert estimate.memory_free() == 12345
    monkeypatch.setattr(estimate, "control_group_free", lambda: None)
    assert estimate.memory_free() > 12345
