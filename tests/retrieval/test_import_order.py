"""FAISS and torch in one process (T22): each brings an OpenMP of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PROGRAM = """
import sys
for name in sys.argv[1].split(","):
    __import__(name)
import faiss, numpy as np
from retrieval.corpus import Corpus
from retrieval.retrievers.dense import Config, build
from retrieval.types import Passage

passages = [Passage(str(n), "", f"sentence number {n} about {word}")
            for n, word in enumerate(["herons", "radium", "tax law"] * 30)]
for kind in ("flat", "hnsw", "ivf_sq8"):
    engine = build(Config(type=kind, device="cpu"), Corpus.of(passages))
    answers = engine.search(["wading birds", "legal taxation", "radioactive metal"], 5)
    found = [hits[0].passage.text.rpartition("about ")[2] for hits in answers]
    assert found == ["herons", "tax law", "radium"], (kind, found)
# More than one thread and 20 queries: the two libraries' parallel paths.
index = faiss.IndexFlatIP(64)
rows = np.random.default_rng(0).normal(size=(5000, 64)).astype("f4")
index.add(rows)
scores, places = index.search(rows[:64], 1)
assert np.allclose(scores[:, 0], (rows[:64] @ rows.T).max(1), rtol=1e-5)
print("threads", faiss.omp_get_max_threads())
"""


@pytest.mark.parametrize(
    ("order", "threads"),
    [
        ("faiss,torch", 2),
        ("torch,faiss", 2),
        pytest.param("faiss,torch", 1, marks=pytest.mark.slow),
        pytest.param("torch,faiss", 1, marks=pytest.mark.slow),
        pytest.param("sentence_transformers,faiss", 2, marks=pytest.mark.slow),
    ],
)
def test_encode_and_search_in_either_order(order, threads):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, order],
        cwd=CHECKOUT,
        env={**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == f"threads {threads}", "OMP_NUM_THREADS is honoured"
