import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "docs" / "env_step_example.py"


def test_the_example_runs_from_anywhere_and_answers_one_hop_questions(tmp_path):
    run = subprocess.run(
        [sys.executable, SCRIPT], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    match = re.fullmatch(r"exact match (\d\.\d\d) over 100 questions\n", run.stdout)
    assert match, run.stdout
    assert float(match[1]) >= 0.8
