"""Score a search agent: `python eval.py --agent runs/quickstart` (`--help` for every option)."""

import sys

from agents.host_memory import use_large_pages

if __name__ == "__main__":
    use_large_pages()
    from agents.eval_command import main

    sys.exit(main(sys.argv[1:]))
