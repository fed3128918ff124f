"""Large pages that torch asks for (the kernel may have none to give), and memory given back."""

import os
import platform
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch

from agents.host_memory import LARGE, mapping

ROOT = Path(__file__).parents[2]
# Of the mapping that holds 64 MB of a tensor: whether large pages were asked for ("hg", proc(5)).
ASKED = """
import torch
tensor = torch.zeros(2**24)
place, inside = tensor.data_ptr() + 2**25, False
for line in open("/proc/self/smaps"):
    first = line.split()[0]
    if "-" in first and not first.endswith(":"):
        low, high = (int(end, 16) for end in first.split("-"))
        inside = low <= place < high
    elif inside and first == "VmFlags:":
        print("hg" in line.split())
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/smaps is Linux's")


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if k != "THP_MEM_ALLOC_ENABLE"}
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


USE = "from agents.host_memory import use_large_pages; use_large_pages()\n"


@pytest.mark.parametrize(
    ("script", "environment", "asked"),
    [
        (ASKED, {}, "False"),
        (USE + ASKED, {}, "True"),
        (USE + ASKED, {"THP_MEM_ALLOC_ENABLE": "0"}, "False"),
    ],
)
def test_torch_asks_for_them_unless_the_environment_says_no(script, environment, asked) -> None:
    done = run(script, **environment)
    assert (done.stdout.strip(), done.returncode) == (asked, 0), done.stderr


def test_too_late_is_an_error() -> None:
    done = run("import torch\n" + USE)
    assert done.returncode == 1
    assert "RuntimeError: use_large_pages: call it before torch is imported" in done.stderr


# Of 66 MB of blocks every twentieth stays, the last one too.
FREED = """
from pathlib import Path
from agents.host_memory import give_back

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

blocks = [bytearray(b"x" * 60_000) for _ in range(1100)]
used = blocks[::-20]
before = resident()
del blocks
kept = before - resident()
give_back()
print(kept // 2**20, (before - resident()) // 2**20)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="for glibc, which keeps what is freed"
)
def test_what_was_freed_goes_back_to_the_system() -> None:
    done = run(FREED)
    at_once, then = map(int, done.stdout.split())
    assert at_once < 10 and then > 50


def test_a_mapping_is_zeros_and_goes_when_nobody_holds_it() -> None:
    memory = mapping(3 * LARGE + 5)
    tensor = torch.frombuffer(memory, dtype=torch.uint8)
    assert len(tensor) == 3 * LARGE + 5 and not tensor.any()
    tensor[-1] = 7
    gone = weakref.ref(memory)
    del memory
    assert tensor[-1] == 7 and gone() is not None
    del tensor
    assert gone() is None
