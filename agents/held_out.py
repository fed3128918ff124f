"""The evaluation of a training run on held-out questions, before and after."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.errors import RetrievalError

from . import metrics, processes
from .assembly import Parts
from .evaluation import evaluate, greedy
from .playing import STOP
from .predictions import Prediction
from .progress import progress_bar
from .statistics import paired_bootstrap
from .writing import writing_to


def evaluate_once(parts: Parts, when: str) -> list[Prediction] | None:
    """Evaluate, each process its share, or read what this run has already evaluated."""
    if not parts.held_out:
        return None
    if (known := evaluated(parts, when)) is not None:
        return known
    options = parts.config.engine.options
    play = greedy(parts.rollout, options.max_tokens, STOP)
    own = parts.held_out[processes.share(len(parts.held_out))]
    with (
        processes.together(),
        progress_bar(len(own), f"evaluation {when}", "question") as bar,
    ):
        made = evaluate(play, own, options.max_episodes, bar.update)
    shares = processes.gather(json.dumps([prediction.to_json() for prediction in made]).encode())
    rows = [row for share in shares for row in json.loads(share)]
    with processes.together():
        if processes.rank() == 0:
            file = evaluation_file(parts, when)
            with writing_to(parts.folder):
                file.parent.mkdir(exist_ok=True)
                metrics.write_lines(file, rows)
    return [Prediction.from_json(row) for row in rows]


def evaluated(parts: Parts, when: str) -> list[Prediction] | None:
    """The run's earlier evaluation, if it was on the same questions."""
    file = evaluation_file(parts, when)
    if not file.exists():
        return None
    known = [Prediction.from_json(row) for row in metrics.read_lines(file)]
    wanted = [question.id for question in parts.held_out]
    return known if [prediction.id for prediction in known] == wanted else None


def evaluation_file(parts: Parts, when: str) -> Path:
    """Where the run keeps it."""
    return parts.folder / "evaluation" / f"{when}.jsonl"


def compare(before: Sequence[Prediction], after: Sequence[Prediction]) -> dict[str, Any]:
    """The same questions before and after, paired.

    Returns:
        n, em_before, em_after (means of the headline metric), difference {mean, low, high}, and the
        searches and invalid rates.

    Raises:
        RetrievalError: Not one question whose retrieval worked both times.
    """
    pairs = [(b, a) for b, a in zip(before, after, strict=True) if not (b.failed or a.failed)]
    if not pairs:
        raise RetrievalError("evaluation: retrieval failed in every episode; check the retriever")
    old, new = zip(*pairs, strict=True)
    return {
        "n": len(pairs),
        "em_before": float(np.mean([p.score for p in old])),
        "em_after": float(np.mean([p.score for p in new])),
        "difference": paired_bootstrap([p.score for p in new], [p.score for p in old]),
        "searches_before": float(np.mean([p.searches for p in old])),
        "searches_after": float(np.mean([p.searches for p in new])),
        "invalid_rate_before": sum(p.invalid for p in old) / sum(p.turns for p in old),
        "invalid_rate_after": sum(p.invalid for p in new) / sum(p.turns for p in new),
    }
