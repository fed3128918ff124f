"""Train a search agent: `python train.py --config configs/quickstart.yaml` (`--help` for every option)."""

import sys

from agents.train_command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
