"""How a process holds its memory on a CPU: in large pages, and no longer than it needs it.

A training step allocates and frees gigabytes. In pages of 4 kB their first touch takes seconds, and
what was freed stays with the C library, in pieces that seldom fit what comes next.
"""

import contextlib
import ctypes
import mmap
import os
import sys

ENABLED = "THP_MEM_ALLOC_ENABLE"  # read by torch when it allocates for the first time
LARGE = 2 * 2**20  # bytes of a page


def use_large_pages() -> None:
    """Have torch ask Linux for pages of 2 MB where a tensor is at least as large.

    An environment that sets THP_MEM_ALLOC_ENABLE itself is left as it is, and the kernel may refuse
    (/sys/kernel/mm/transparent_hugepage/enabled: never).

    Raises:
        RuntimeError: torch is loaded, and would not look any more.
    """
    if ENABLED in os.environ:
        return
    if "torch" in sys.modules:
        raise RuntimeError("use_large_pages: call it before torch is imported")
    os.environ[ENABLED] = "1"


def mapping(size: int) -> mmap.mmap:
    """`size` bytes of zeros that go back to the system at once when nobody holds them."""
    memory = mmap.mmap(-1, size)
    if os.environ.get(ENABLED) == "1" and size >= LARGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def give_back() -> None:
    """Return what was freed to the system, where the C library is glibc, which keeps it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
