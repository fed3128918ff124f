"""Score a search agent: `python eval.py --agent runs/quickstart` (`--help` for every option)."""

import sys

from agents.eval_command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
