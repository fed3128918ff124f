"""Large pages of memory for what torch allocates on a CPU."""

import os
import sys


def use_large_pages() -> None:
    """Have torch ask Linux for pages of 2 MB where a tensor is at least as large.

    A training step frees and allocates gigabytes; in pages of 4 kB their first touch takes seconds
    (docs/performance.md). An environment that sets THP_MEM_ALLOC_ENABLE itself is left as it is,
    and the kernel may refuse (/sys/kernel/mm/transparent_hugepage/enabled: never).

    Raises:
        RuntimeError: torch is loaded, and would not look any more.
    """
    if "THP_MEM_ALLOC_ENABLE" in os.environ:
        return
    if "torch" in sys.modules:
        raise RuntimeError("use_large_pages: call it before torch is imported")
    os.environ["THP_MEM_ALLOC_ENABLE"] = "1"
