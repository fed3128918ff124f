"""Builds of a dense index that are killed at random moments; slow: each starts a Python."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from retrieval.errors import InputError
from retrieval.index import open_index
from tests.retrieval.tiny_models import tiny_bert

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

CHECKOUT = Path(__file__).parents[3]
KILLS = 10


@pytest.fixture
def command(tmp_path):
    draw = random.Random(0)
    words = ["heron", "river", "radium", "passage", "sentence", "query"]
    with (tmp_path / "corpus.jsonl").open("w") as out:
        for number in range(20_000):  # 5 chunks
            text = " ".join(draw.choices(words, k=12))
            out.write(json.dumps({"id": str(number), "title": "", "text": text}) + "\n")
    model = tiny_bert(tmp_path / "tiny")
    return [
        *(sys.executable, "-m", "retrieval.build_index", "--retriever", "dense"),
        *("--corpus", str(tmp_path / "corpus.jsonl"), "--index.encoder", str(model)),
        *("--index.type", "ivf_sq8", "--index.device", "cpu", "--out"),
    ]


def run(command, **settings):
    return subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **settings
    )


def test_a_killed_build_never_looks_whole_and_goes_on_to_the_same_index(command, tmp_path):
    whole = run([*command, str(tmp_path / "whole")])
    assert whole.wait() == 0, whole.stderr.read()
    draw, killed, begun = random.Random(1), 0, []
    while killed < KILLS:
        process = run([*command, str(tmp_path / "out")])
        # From when there is something to lose; importing torch takes most of a run.
        partial = tmp_path / "out.partial"
        chunks = partial / "engine" / "embeddings"
        while process.poll() is None and not (chunks.exists() and killed):
            if partial.exists() and not killed:
                break
            time.sleep(0.02)
        time.sleep(draw.uniform(0, 1.5))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed += 1
        begun.append(len(list(chunks.glob("*.npy"))))
        with pytest.raises(InputError, match="no index"):
            open_index(tmp_path / "out")
    assert killed >= 2
    assert begun == sorted(begun), "no chunk is lost"
    if not (tmp_path / "out").exists():
        last = run([*command, str(tmp_path / "out")])
        assert last.wait() == 0, last.stderr.read()
    for name in ("index.faiss", "encoder.json"):
        once = (tmp_path / "whole" / "engine" / name).read_bytes()
        assert (tmp_path / "out" / "engine" / name).read_bytes() == once
    assert not os.path.exists(tmp_path / "out.partial")
