"""Train a search agent: `python train.py --config configs/quickstart.yaml` (see `--help`)."""

import sys

from agents.host_memory import use_large_pages

if __name__ == "__main__":
    use_large_pages()
    from agents.train_command import main

    sys.exit(main(sys.argv[1:]))
