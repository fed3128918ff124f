"""What torch asks the kernel for; whether the kernel has large pages to give is its own affair."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


USE = "from agents.large_pages import use_large_pages; use_large_pages()\n"


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
