"""Train a search agent: `python train.py --config configs/quickstart.yaml` (see `--help`)."""

import sys

from agents.train_command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
