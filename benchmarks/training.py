"""What a training step costs: `python -m benchmarks.training --help`; docs/performance.md."""

import sys

from agents.host_memory import use_large_pages

if __name__ == "__main__":
    use_large_pages()  # for every side, as train.py does
    from benchmarks.speed.command import main

    sys.exit(main())
